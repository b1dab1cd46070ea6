"""Room for a gang that has parts: for as many of them as it needs to start, the smallest first, and for nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import islice
from typing import Final

import numpy as np

from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.group_tree import GroupPart
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.subjobs import SubJob
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.session.part_order import lacking, missing, sub_job_of_part
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.session.statement import Statement

__all__ = ["least_request", "request_of", "room_for_part"]

_ENDLESS: Final = 1 << 50
"""More of a resource than there is; sums of it stay in range."""


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


def least_request(session: Session, job: Job, part: GroupPart, waiting: Mapping[str, Iterable[Task]]) -> Ints:
    """Of each resource so much as `part` asks for at least to start, whichever of its parts do.

    `waiting`: the tasks that may get places, first one first, by UID of their sub-job.
    """
    if part.parts:
        each = np.sort(np.stack([least_request(session, job, each, waiting) for each in part.parts]), axis=0)
        least: Ints = each[: part.minimum].sum(axis=0)
        return least
    sub_job = sub_job_of_part(job, part)
    tasks = () if sub_job is None else tuple(islice(waiting.get(sub_job.uid, ()), missing(sub_job)))
    if len(tasks) < lacking(job, part):
        return np.full(len(session.dimensions), _ENDLESS, dtype=np.int64)
    return request_of(session, tasks)


def request_of(session: Session, tasks: Iterable[Task]) -> Ints:
    """What `tasks` ask for together."""
    requests = [session.dimensions.vector(task.facts.shape.request) for task in tasks]
    return np.sum(requests, axis=0) if requests else np.zeros(len(session.dimensions), dtype=np.int64)
