"""Rules for the tasks of a new Job: counts, partitions, whole cores for NUMA, and dependencies without a cycle."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pyroclast.rules.cycles import find_cycle
from pyroclast.rules.errors import FieldError, invalid
from pyroclast.rules.jobs.arrays import check_array, pods_at_once, pods_end
from pyroclast.rules.jobs.defaults import task_minimum
from pyroclast.rules.jobs.policies import check_policies
from pyroclast.rules.names import qualified_name
from pyroclast.rules.podgroups import BOTH_TIERS, check_topology
from pyroclast.rules.podspecs import check_template
from pyroclast.rules.values import amount, integer, items, mapping, optional_integer, string_items, text
from pyroclast.rules.verdicts import Finding, broken, first_only, found

ABOVE_REPLICAS = "'minAvailable' is greater than 'replicas'"
NOT_ALL_PARTITIONS = "'Replicas' are not equal to TotalPartitions*PartitionSize"
NOT_LEAST_PARTITIONS = "'MinAvailable' is not equal to MinPartitions*PartitionSize"
NOT_A_GRAPH = "job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG)"
MAX_ERRORS = 64
"""The most unknown names that are reported, which is the most that a response shows."""

_ITERATIONS = ("", "any", "all", "IterationAny", "IterationAll")


def check_dependencies(tasks: Sequence[Mapping[str, Any]], path: str) -> Sequence[Finding]:
    """Return the fault of tasks at `path` whose dependencies are unknown or form a cycle.

    Of tasks with the same name, which is a fault too, only the dependencies of the first are checked.
    """
    if not any("dependsOn" in task for task in tasks):
        return ()
    edges: dict[str, tuple[str, ...]] = {}
    positions: dict[str, int] = {}
    errors: list[FieldError] = []
    for index, task in enumerate(tasks):
        name = text(task.get("name"))
        if name not in edges:
            edges[name] = tuple(dict.fromkeys(_prerequisites(task)))
            positions[name] = index
        elif not errors:
            errors.append(invalid(f"{path}[{index}].name", name, f"{NOT_A_GRAPH}; it is the name of task {positions[name]} too"))
    for name, prerequisites in edges.items():
        for prerequisite in prerequisites:
            if prerequisite not in edges and len(errors) < MAX_ERRORS:
                where = f"{path}[{positions[name]}].dependsOn.name"
                errors.append(invalid(where, prerequisite, f"{NOT_A_GRAPH}; no task has this name"))
    if cycle := find_cycle(edges):
        where = f"{path}[{positions[cycle[0]]}].dependsOn.name"
        errors.append(invalid(where, cycle[1], f"{NOT_A_GRAPH}; {' waits for '.join(cycle)}"))
    return [found(f" {NOT_A_GRAPH};", *errors)] if errors else ()


def dependency_warnings(tasks: Sequence[Mapping[str, Any]], path: str) -> Iterator[str]:
    """Yield warnings for dependencies whose effect differs from their text."""
    for index, task in enumerate(tasks):
        if "dependsOn" not in task:
            continue
        given = mapping(task["dependsOn"])
        iteration = text(given.get("iteration"))
        if iteration not in _ITERATIONS:
            yield f'{path}[{index}].dependsOn.iteration: "{iteration}" is neither any nor all, all is taken'
        names = _prerequisites(task)
        if len(set(names)) < len(names):
            yield f"{path}[{index}].dependsOn.name: a task named twice is one dependency"


def gang_warnings(spec: Mapping[str, Any], tasks: Sequence[Mapping[str, Any]], path: str) -> Iterator[str]:
    """Yield a warning when `minAvailable` counts pods that are created only after the gang has started."""
    least = optional_integer(spec.get("minAvailable")) or sum(task_minimum(task) for task in tasks)
    waiting = [task for task in tasks if _prerequisites(task)]
    first = total_replicas(tasks) - total_replicas(waiting)
    if waiting and first < least:
        name, targets = text(waiting[0].get("name")), ", ".join(_prerequisites(waiting[0]))
        yield (
            f"{path}.minAvailable: {least} pods must start together, but only {first} are made at first: task {name} waits for"
            f" {targets}, so the job never starts; {first} or less lets it"
        )


def _prerequisites(task: Mapping[str, Any]) -> list[str]:
    return string_items(mapping(task.get("dependsOn")).get("name"))


MILLIS_PER_CORE = 1000


def check_numa(task: Mapping[str, Any], index: int, path: str) -> Sequence[Finding]:
    """Return the faults of containers that request no whole number of cores; Volcano reports only the first."""
    if text(task.get("topologyPolicy")) in ("", "none"):
        return ()
    return first_only(_check(mapping(mapping(task.get("template")).get("spec")), index, f"{path}.template.spec"))


def _check(pod: Mapping[str, Any], index: int, path: str) -> Iterator[Finding]:
    number = 0
    for part in ("containers", "initContainers"):
        for position, container in enumerate(items(pod.get(part))):
            resources = mapping(mapping(container).get("resources"))
            kind = "requests" if mapping(resources.get("requests")) else "limits"
            value = mapping(resources.get(kind)).get("cpu")
            cpu = amount(value)
            if cpu is None or cpu.millis <= 0 or cpu.millis % MILLIS_PER_CORE:
                sentence = f"the cpu request isn't an integer in spec.task[{index}] container[{number}]"
                where = f"{path}.{part}[{position}].resources.{kind}.cpu"
                yield found(f"{sentence}.", invalid(where, value, f"{sentence}; a NUMA policy needs whole cores"))
            number += 1


def check_partitions(task: Mapping[str, Any], path: str, job_name: str) -> list[Finding]:
    """Return the faults of `partitionPolicy`; without `totalPartitions` the replicas need be no product."""
    policy = task.get("partitionPolicy")
    if not isinstance(policy, dict):
        return []
    findings = first_only(_check_sizes(task, policy, path, job_name))
    error = check_topology(policy.get("networkTopology"), f"{path}.partitionPolicy.networkTopology")
    return [*findings, found(BOTH_TIERS, error)] if error else findings


def _check_sizes(task: Mapping[str, Any], policy: Mapping[str, Any], path: str, job_name: str) -> Iterator[Finding]:
    where = f"in task: {text(task.get('name'))}, job: {job_name}"
    path = f"{path}.partitionPolicy"
    total, size = optional_integer(policy.get("totalPartitions")), integer(policy.get("partitionSize"))
    replicas, minimum = integer(task.get("replicas")), integer(policy.get("minPartitions"))
    available = optional_integer(task.get("minAvailable"))
    if total is not None and total <= 0:
        yield broken(f"{path}.totalPartitions", total, f"'TotalPartitions' must be greater than 0 {where}")
    if size <= 0:
        yield broken(f"{path}.partitionSize", size, f"'PartitionSize' must be greater than 0 {where}")
    if size <= 0 or (total is not None and total <= 0):
        return
    if total is not None and replicas != total * size:
        sentence = f"{NOT_ALL_PARTITIONS} {where}"
        yield found(sentence, invalid(f"{path}.totalPartitions", total, f"{sentence}; {total}*{size} is not {replicas}"))
    if available is not None and minimum > 0 and minimum * size != available:
        sentence = f"{NOT_LEAST_PARTITIONS} {where}"
        yield found(sentence, invalid(f"{path}.minPartitions", minimum, f"{sentence}; {minimum}*{size} is not {available}"))


SAID_PATH = "spec.tasks.policies"


def total_replicas(tasks: Iterable[Mapping[str, Any]]) -> int:
    """Return the number of pods of all tasks that may exist at the same time."""
    return sum(map(pods_at_once, tasks))


def check_minimum(task: Mapping[str, Any], path: str, job_name: str) -> Sequence[Finding]:
    """Return a fault when the task at `path` has fewer replicas than it needs."""
    replicas, available = pods_at_once(task), optional_integer(task.get("minAvailable"))
    if available is None or available <= replicas:
        return ()
    sentence = f"{ABOVE_REPLICAS} in task: {text(task.get('name'))}, job: {job_name}"
    error = invalid(f"{path}.minAvailable", available, f"{sentence}; there are {replicas} replicas")
    return [found(f" {sentence};", error)]


def check_task(
    task: Mapping[str, Any], index: int, path: str, job_name: str, *, named: bool, pod_level_resources: bool
) -> list[Finding]:
    """Return the other faults of the task at `path`. `named`: whether the Job's name is final, so that pod names are known."""
    name = text(task.get("name"))
    findings = list(check_policies(task.get("policies"), f"{path}.policies", said_path=SAID_PATH))
    if named:
        findings += _check_pod_name(job_name, name, index, pods_end(task), path)
    errors = check_template(task.get("template"), task_name=name, pod_level_resources=pod_level_resources)
    if errors:
        sentence = f"spec.task[{index}]." + "".join(f"{error}. " for error in errors)
        findings.append(found(sentence, *(error.under(path) for error in errors)))
    else:
        findings += check_numa(task, index, path)
    findings += check_partitions(task, path, job_name)
    findings += check_array(task, path)
    return findings


def _check_pod_name(job_name: str, task_name: str, index: int, replicas: int, path: str) -> Sequence[Finding]:
    """Check the name of the pod whose index is the number of the task, as Volcano does, unless the last pod's name is valid."""
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
        shown, last = f"{job_name}-{name}-{index}", _last_pod(job_name, name, pods_end(task))
        if len(last) > len(shown) and qualified_name(last) and not qualified_name(shown):
            yield f"{path}[{index}].name: its last pod is {last}, a name too long for the host name that plugin svc gives it"


def _last_pod(job_name: str, task_name: str, replicas: int) -> str:
    return f"{job_name}-{task_name}-{max(replicas - 1, 0)}"
