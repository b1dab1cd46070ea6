"""The number of pods of a job that may be evicted at once, by the disruption budget in the annotations of its PodGroup."""

from __future__ import annotations

from pyroclast.api import keys
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.numbers import parse_count
from pyroclast_scheduler.model.statuses import TaskStatus

_DEFAULT = 1


def most_evictions(job: Job) -> int:
    """Return the number that the budget allows, or 1 without a budget.

    A job that runs fewer pods than the minimum of its budget loses none, although Volcano would evict one.
    """
    annotations = job.facts.group.metadata.annotations
    tasks = len(job.facts.tasks)
    running = job.tally[TaskStatus.RUNNING]
    least = annotations.get(keys.DISRUPTION_MIN_AVAILABLE, "")
    most = annotations.get(keys.DISRUPTION_MAX_UNAVAILABLE, "")
    if least:
        return max(0, running - _amount(least, tasks))
    if most:
        gone = tasks - job.tally[TaskStatus.SUCCEEDED] - job.tally[TaskStatus.FAILED] - running
        return max(0, _amount(most, tasks) - gone)
    return _DEFAULT


def _amount(text: str, whole: int) -> int:
    """Return a number, or a percentage of `whole` rounded up; 0 if `text` is neither."""
    number = parse_count(text.removesuffix("%")) or 0
    return -(-number * whole // 100) if text.endswith("%") else number
