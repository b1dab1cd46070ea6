"""Which parts of a gang are the cheapest to start: those that lack fewest pods."""

from __future__ import annotations

from typing import Final

from pyroclast_scheduler.model.group_tree import GroupPart
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.statuses import TaskStatus
from pyroclast_scheduler.model.subjobs import SubJob, sub_job_uid

__all__ = ["lacking", "missing", "sub_job_of_part"]

_TOO_MANY: Final = 1 << 40  # pods: more than any gang has


def missing(sub_job: SubJob) -> int:
    """How many more pods of `sub_job` need a place, or the promise of one, before it starts."""
    return max(0, sub_job.tally.missing(sub_job.min_available, {}) - sub_job.tally[TaskStatus.PIPELINED])


def lacking(job: Job, part: GroupPart) -> int:
    """How many more pods need a place, or the promise of one, before `part` starts; very many where too few wait."""
    if part.parts:
        return sum(sorted(lacking(job, each) for each in part.parts)[: part.minimum])
    sub_job = sub_job_of_part(job, part)
    if sub_job is None:
        return _TOO_MANY
    count = missing(sub_job)
    return count if count <= sub_job.tally[TaskStatus.PENDING] else _TOO_MANY


def sub_job_of_part(job: Job, part: GroupPart) -> SubJob | None:
    """What `part` of `job` is in this session; None where it has no pods."""
    return job.sub_jobs.get(sub_job_uid(job.facts.key, part.name))
