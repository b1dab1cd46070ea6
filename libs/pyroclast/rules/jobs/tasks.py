"""What speaks against one task of a new Job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyroclast.rules.errors import invalid
from pyroclast.rules.jobs.numa import check_numa
from pyroclast.rules.jobs.partitions import check_partitions
from pyroclast.rules.jobs.policies import check_policies
from pyroclast.rules.names import qualified_name
from pyroclast.rules.podspecs import check_template
from pyroclast.rules.values import integer, optional_integer, text
from pyroclast.rules.verdicts import Finding, found

__all__ = ["check_minimum", "check_task", "total_replicas"]

SAID_PATH = "spec.tasks.policies"


def total_replicas(tasks: Iterable[Mapping[str, Any]]) -> int:
    """How many pods the tasks have together."""
    return sum(integer(task.get("replicas")) for task in tasks)


def check_minimum(task: Mapping[str, Any], path: str, job_name: str) -> Sequence[Finding]:
    """Whether the task at `path` has the replicas that it needs."""
    replicas, available = integer(task.get("replicas")), optional_integer(task.get("minAvailable"))
    if available is None or available <= replicas:
        return ()
    sentence = f"'minAvailable' is greater than 'replicas' in task: {text(task.get('name'))}, job: {job_name}"
    error = invalid(f"{path}.minAvailable", available, f"{sentence}; there are {replicas} replicas")
    return [found(f" {sentence};", error)]


def check_task(
    task: Mapping[str, Any], index: int, path: str, job_name: str, *, named: bool, pod_level_resources: bool
) -> list[Finding]:
    """What else is wrong with the task number `index` at `path`. `named`: the name of the job is final, so pods can be named."""
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
    """The name of the task's last pod. The sentence shows the name that the original makes up (from the task's number)."""
    last = f"{job_name}-{task_name}-{max(replicas - 1, 0)}"
    problems = qualified_name(last)
    if not problems:
        return ()
    shown = f"{job_name}-{task_name}-{index}"
    if not qualified_name(shown):
        shown = last
    sentence = f"create pod with name {shown} validate failed [{' '.join(problems)}]"
    return [found(f"{sentence};", invalid(f"{path}.name", task_name, f"{sentence}: its last pod is {last}"))]
