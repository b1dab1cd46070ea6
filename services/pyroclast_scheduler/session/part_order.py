"""Finds the parts of a gang that lack the fewest pods, and so are the cheapest to start."""

from __future__ import annotations

from typing import Final

from pyroclast_scheduler.model.groups import GroupPart
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.statuses import TaskStatus
from pyroclast_scheduler.model.subjobs import SubJob, sub_job_uid

_TOO_MANY: Final = 1 << 40  # more pods than any gang has


def missing(sub_job: SubJob) -> int:
    """Return how many more pods of `sub_job` must be allocated or pipelined before it can start."""
    return max(0, sub_job.tally.missing(sub_job.min_available, {}) - sub_job.tally[TaskStatus.PIPELINED])


def lacking(job: Job, part: GroupPart) -> int:
    """Return how many more pods must be allocated or pipelined before `part` can start; a huge number if too few are pending."""
    if part.parts:
        return sum(sorted(lacking(job, each) for each in part.parts)[: part.minimum])
    sub_job = sub_job_of_part(job, part)
    if sub_job is None:
        return _TOO_MANY
    count = missing(sub_job)
    return count if count <= sub_job.tally[TaskStatus.PENDING] else _TOO_MANY


def sub_job_of_part(job: Job, part: GroupPart) -> SubJob | None:
    """Return the sub-job of the part `part` of a group; None if the part has no pods."""
    return job.sub_jobs.get(sub_job_uid(job.facts.key, part.name))
