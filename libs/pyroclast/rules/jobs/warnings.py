"""Rules for the queue of a Job, and warnings for parts of a Job that are valid but surely not intended."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyroclast.api.schedulers import Schedulers
from pyroclast.resources.pods import as_stored, effective
from pyroclast.rules.errors import forbidden, invalid
from pyroclast.rules.jobs.arrays import array_warnings, number_of_pods
from pyroclast.rules.jobs.defaults import task_minimum
from pyroclast.rules.jobs.plugins import plugin_warnings, volume_warnings
from pyroclast.rules.jobs.policies import policy_warnings
from pyroclast.rules.jobs.tasks import dependency_warnings, gang_warnings, total_replicas
from pyroclast.rules.lookups import ROOT_QUEUE, QueueLookup, QueueView, queue_not_found
from pyroclast.rules.values import amount, mapping, mappings, optional_integer, text
from pyroclast.rules.verdicts import Finding, found

SHOWN_CHILDREN = 3
ROOT_REFUSED = "can not submit job to root queue"


def check_queue(name: str, queues: QueueLookup, path: str) -> Iterator[Finding]:
    """Yield the faults of the queue that the field at `path` names for a Job."""
    queue = queues.get(name)
    if queue is None:
        sentence = f"unable to find job queue: {queue_not_found(name)}"
        yield found(f" {sentence};", invalid(path, name, f"{sentence}; create the queue first or name another one"))
        return
    if not queue.is_open:
        sentence = f"can only submit job to queue with state `Open`, queue `{name}` status is `{queue.state}`"
        yield replace(found(f" {sentence};", forbidden(path, sentence)), about_fields=False)
    if name == ROOT_QUEUE:
        yield found(f" {ROOT_REFUSED};", invalid(path, name, f"{ROOT_REFUSED}; name a queue below it"))
        return
    if children := queues.children(name):
        sentence = f"can only submit job to leaf queue, queue `{name}` has {len(children)} child queues"
        names = ", ".join(child.name for child in children[:SHOWN_CHILDREN])
        yield found(f" {sentence};", invalid(path, name, f"{sentence}; name one below it, such as {names}"))


def queue_warnings(tasks: Sequence[Mapping[str, Any]], queue: QueueView) -> Iterator[str]:
    """Yield a warning when the capability of the queue is below the requests of the gang, so that the Job waits forever."""
    asked = [_of_task(task) for task in tasks] if queue.capability else []
    for resource, limit in queue.capability.items():
        most = amount(limit)
        needed = sum(each.get(resource, 0) for each in asked)
        if most is not None and needed > most.millis:
            yield f"spec.queue: the job needs more {resource} to start than queue {queue.name} may ever use ({limit})"


def _of_task(task: Mapping[str, Any]) -> dict[str, int]:
    """Return the requests of the task's minimum of pods, in thousandths, without what LimitRanges and RuntimeClasses add."""
    pod, pods = mapping(mapping(task.get("template")).get("spec")), max(task_minimum(task), 0)
    return {name: asked.millis * pods for name, asked in effective(as_stored(pod), "requests").items()}


def spec_warnings(spec: Mapping[str, Any], path: str, queue: QueueView | None = None) -> list[str]:
    """Return a warning for each oddity of the spec at `path`; with `queue`, also for a Job that can never run in that queue."""
    tasks = [task for _, task in mappings(spec.get("tasks"))]
    lines = [*_of_counts(spec, tasks, path), *policy_warnings(spec.get("policies"), f"{path}.policies")]
    for index, task in enumerate(tasks):
        if "policies" in task:
            lines += policy_warnings(task["policies"], f"{path}.tasks[{index}].policies")
        if "partitionPolicy" in task:
            lines += _of_partitions(mapping(task["partitionPolicy"]), f"{path}.tasks[{index}].partitionPolicy")
    if "volumes" in spec:
        lines += volume_warnings(spec["volumes"], f"{path}.volumes")
    if "plugins" in spec:
        lines += plugin_warnings(spec["plugins"], tasks, f"{path}.plugins")
    lines += [*dependency_warnings(tasks, f"{path}.tasks"), *gang_warnings(spec, tasks, path), *array_warnings(spec, tasks, path)]
    if queue is not None:
        lines += queue_warnings(tasks, queue)
    return lines


def class_warnings(spec: Mapping[str, Any], path: str, known: Container[str] | None) -> Iterator[str]:
    """Yield a warning for each PriorityClass that is not in `known` (None: nothing is known): pods with it would be refused."""
    if known is None:
        return
    for place, holder in pod_specs(spec, path):
        name = holder.get("priorityClassName")
        if name and name not in known:
            yield f'{place}.priorityClassName: there is no PriorityClass "{name}"; no pod of it is made until there is one'


def scheduler_warnings(
    spec: Mapping[str, Any], path: str, schedulers: Schedulers | None, own: Collection[str] = ()
) -> Iterator[str]:
    """Yield a warning for each scheduler that the spec at `path` names and that does not lead; none when `schedulers` is None.

    `own`: the schedulers of this installation, which may work without a Lease.
    """
    if schedulers is None:
        return
    for place, holder in pod_specs(spec, path):
        name = text(holder.get("schedulerName"))
        if name and (name not in own or schedulers.is_known(name)) and (absence := schedulers.absence(name)):
            yield f"{place}.schedulerName: {absence}; the job waits until there is one"


def pod_specs(spec: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the spec of a Job at `path`, then that of each of its pod templates, each with its path."""
    yield path, spec
    for index, task in mappings(spec.get("tasks")):
        yield f"{path}.tasks[{index}].template.spec", mapping(mapping(task.get("template")).get("spec"))


def _of_counts(spec: Mapping[str, Any], tasks: Sequence[Mapping[str, Any]], path: str) -> Iterator[str]:
    if tasks and total_replicas(tasks) == 0:
        yield f"{path}.tasks: no task has replicas; the job is Running without pods until it is scaled up or deleted"
    if not spec.get("minAvailable") and total_replicas(tasks) > 0 and sum(task_minimum(task) for task in tasks) == 0:
        yield f"{path}.minAvailable: it is 0, so the job counts as started before any pod runs"
    least = optional_integer(spec.get("minSuccess"))
    if least is not None and least > (total := sum(map(number_of_pods, tasks))) > 0:
        yield f"{path}.minSuccess: {least} pods shall succeed, but there are only {total}"
    if optional_integer(spec.get("ttlSecondsAfterFinished")) == 0:
        yield f"{path}.ttlSecondsAfterFinished: the job is removed the moment it finishes, its outcome may never be seen"


def _of_partitions(partitions: Mapping[str, Any], path: str) -> Sequence[str]:
    least, total = optional_integer(partitions.get("minPartitions")), optional_integer(partitions.get("totalPartitions"))
    if least is None or total is None or least <= total:
        return ()
    return [f"{path}.minPartitions: {least} partitions shall run, but there are only {total}"]
