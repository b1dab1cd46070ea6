"""How many pods of a job may be evicted at once, by the disruption budget in the annotations of its PodGroup."""

from __future__ import annotations

from pyroclast.api import keys
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.numbers import parse_count
from pyroclast_scheduler.model.statuses import TaskStatus

__all__ = ["most_evictions"]

_DEFAULT = 1


def most_evictions(job: Job) -> int:
    """With a budget what it leaves, without one a single pod.

    A job that runs fewer pods than its minimum loses none: Volcano lets one go.
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
    """A number, or a percentage of `whole` rounded up; what is neither is 0."""
    number = parse_count(text.removesuffix("%")) or 0
    return -(-number * whole // 100) if text.endswith("%") else number
