"""`minResources` of a Job's PodGroup: the requests of the pods without which the gang cannot start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyroclast.api.records import Job, Task
from pyroclast.lifecycle.gang import usage
from pyroclast.lifecycle.gang.pods import template_of
from pyroclast.lifecycle.gang.size import min_available, needed_pods
from pyroclast.lifecycle.gang.usage import Usage


def min_resources(job: Job, priorities: Mapping[str, int]) -> dict[str, str]:
    """Return the requests of the `minAvailable` most important pods, in canonical quantities.

    `priorities`: the value of each PriorityClass, by name. Tasks with a higher priority count first; tasks with equal priority
    count in the order of the spec.
    """
    total: Usage = {}
    for task, number in shares(job, priorities):
        total = usage.add(total, usage.times(usage.pod_usage(template_of(task).get("spec") or {}), number))
    return {name: str(amount) for name, amount in total.items()}


def shares(job: Job, priorities: Mapping[str, int]) -> Iterator[tuple[Task, int]]:
    """Yield tasks and their numbers of pods, which together make up `minAvailable`; a task may appear twice."""
    wanted = min_available(job.spec)
    tasks = sorted(job.spec.tasks, key=lambda task: -_priority(task, priorities))
    if wanted < sum(map(needed_pods, tasks)):
        yield from _first(tasks, wanted)
    else:
        yield from _fill(tasks, wanted)


def _first(tasks: list[Task], wanted: int) -> Iterator[tuple[Task, int]]:
    """Yield the first pods in order of priority, regardless of each task's own minimum."""
    for task in tasks:
        number = min(wanted, task.replicas)
        yield task, number
        wanted -= number
        if wanted <= 0:
            return


def _fill(tasks: list[Task], wanted: int) -> Iterator[tuple[Task, int]]:
    """Yield each task's own minimum, then the remaining pods in order of priority."""
    for task in tasks:
        if task.min_available is not None and wanted > 0:
            number = min(task.min_available, wanted)
            yield task, number
            wanted -= number
    for task in tasks:
        if wanted <= 0:
            return
        number = min(task.replicas - (task.min_available or 0), wanted)
        yield task, number
        wanted -= number


def _priority(task: Task, priorities: Mapping[str, int]) -> int:
    spec = template_of(task).get("spec") or {}
    return priorities.get(spec.get("priorityClassName") or "", 0)
