"""Rules for one task of a new Job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pyroclast.rules.errors import invalid
from pyroclast.rules.jobs.numa import check_numa
from pyroclast.rules.jobs.partitions import check_partitions
from pyroclast.rules.jobs.policies import check_policies
from pyroclast.rules.names import qualified_name
from pyroclast.rules.podspecs import check_template
from pyroclast.rules.values import integer, optional_integer, text
from pyroclast.rules.verdicts import Finding, found

SAID_PATH = "spec.tasks.policies"


def total_replicas(tasks: Iterable[Mapping[str, Any]]) -> int:
    """Return the number of pods of all tasks together."""
    return sum(integer(task.get("replicas")) for task in tasks)


def check_minimum(task: Mapping[str, Any], path: str, job_name: str) -> Sequence[Finding]:
    """Return a fault when the task at `path` has fewer replicas than it needs."""
    replicas, available = integer(task.get("replicas")), optional_integer(task.get("minAvailable"))
    if available is None or available <= replicas:
        return ()
    sentence = f"'minAvailable' is greater than 'replicas' in task: {text(task.get('name'))}, job: {job_name}"
    error = invalid(f"{path}.minAvailable", available, f"{sentence}; there are {replicas} replicas")
    return [found(f" {sentence};", error)]


def check_task(
    task: Mapping[str, Any], index: int, path: str, job_name: str, *, named: bool, pod_level_resources: bool
) -> list[Finding]:
    """Return the other faults of task number `index` at `path`. `named`: whether the Job's name is final, so that pod names are
    known.
    """
    name, replicas = text(task.get("name")), integer(task.get("replicas"))
    findings = list(check_policies(task.get("policies"), f"{path}.policies", said_path=SAID_PATH))
    if named:
        findings += _check_pod_name(job_name, name, index, replicas, path)
    errors = check_template(task.get("template"), task_name=name, pod_level_resources=pod_level_resources)
    if errors:
        sentence = f"spec.task[{index}]." + "".join(f"{error}. " for error in errors)
        findings.append(found(sentence, *(error.under(path) for error in errors)))
    else:
        findings += check_numa(task, index, path)
    findings += check_partitions(task, path, job_name)
    return findings


def _check_pod_name(job_name: str, task_name: str, index: int, replicas: int, path: str) -> Sequence[Finding]:
    """Check the name of the pod whose index is the number of the task, as Volcano does; no fault if the last pod's name
    is valid.
    """
    shown, last = f"{job_name}-{task_name}-{index}", _last_pod(job_name, task_name, replicas)
    problems = qualified_name(shown)
    if not problems or not qualified_name(last):
        return ()
    sentence = f"create pod with name {shown} validate failed [{' '.join(problems)}]"
    return [found(f"{sentence};", invalid(f"{path}.name", task_name, f"{sentence}: its last pod is {last}"))]


def pod_name_warnings(tasks: Iterable[Mapping[str, Any]], path: str, job_name: str) -> Iterator[str]:
    """Yield a warning for each of `tasks` (at `path`) of which only later pods have names that are too long."""
    for index, task in enumerate(tasks):
        name = text(task.get("name"))
        shown, last = f"{job_name}-{name}-{index}", _last_pod(job_name, name, integer(task.get("replicas")))
        if len(last) > len(shown) and qualified_name(last) and not qualified_name(shown):
            yield f"{path}[{index}].name: its last pod is {last}, a name too long for the host name that plugin svc gives it"


def _last_pod(job_name: str, task_name: str, replicas: int) -> str:
    return f"{job_name}-{task_name}-{max(replicas - 1, 0)}"
