"""Room for a gang that has parts: for as many of them as it needs to start, the smallest first, and for nothing else."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.parts import GroupPart
from pyroclast_scheduler.model.subjobs import SubJob
from pyroclast_scheduler.session.part_order import lacking, sub_job_of_part
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.session.statement import Statement

__all__ = ["room_for_part"]


def room_for_part(session: Session, job: Job, part: GroupPart, make: Callable[[SubJob], Statement | None]) -> Statement | None:
    """What makes room for `part` to start; None, with everything undone, where it would not.

    `make` does so for a part that has pods of its own, and leaves nothing behind where it gives None. A part that is tried and
    fails makes no pod go.
    """
    if job.is_part_ready(part, pipelined=True):
        return session.statement()
    if not part.parts:
        sub_job = sub_job_of_part(job, part)
        return None if sub_job is None else make(sub_job)
    whole = session.statement()
    for each in sorted(part.parts, key=partial(lacking, job)):
        made = room_for_part(session, job, each, make)
        if made is None:
            continue
        whole.merge(made)
        if job.is_part_ready(part, pipelined=True):
            return whole
    whole.discard()
    return None
