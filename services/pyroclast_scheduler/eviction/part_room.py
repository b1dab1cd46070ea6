"""Room for a gang with parts: evictions only for as many parts as the gang needs to start, the smallest parts first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import islice
from typing import Final

import numpy as np

from pyroclast.lifecycle.gang.groups import GroupPart
from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.subjobs import SubJob
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.session.part_placement import lacking, missing, sub_job_of_part
from pyroclast_scheduler.session.plugin_session import PluginSession
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.session.statement import Statement

_UNLIMITED: Final = 1 << 50
"""More than any cluster has of a resource; sums of it do not overflow."""


def room_for_part(session: Session, job: Job, part: GroupPart, make: Callable[[SubJob], Statement | None]) -> Statement | None:
    """Return the evictions and placements with which `part` can start; None, with everything undone, if it cannot.

    `make` does the same for a leaf part. No pod is evicted for a part that cannot start.
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
    """Return the smallest amounts that `part` needs to start, by resource. `waiting`: the pending tasks by UID of the sub-job."""
    if part.parts:
        each = np.sort(np.stack([least_request(session, job, each, waiting) for each in part.parts]), axis=0)
        least: Ints = each[: part.minimum].sum(axis=0)
        return least
    sub_job = sub_job_of_part(job, part)
    tasks = () if sub_job is None else tuple(islice(waiting.get(sub_job.uid, ()), missing(sub_job)))
    if len(tasks) < lacking(job, part):
        return np.full(len(session.dimensions), _UNLIMITED, dtype=np.int64)
    return request_of(session, tasks)


def request_of(session: PluginSession, tasks: Iterable[Task]) -> Ints:
    """Return the sum of the requests of `tasks`."""
    total: Ints = np.zeros(len(session.dimensions), dtype=np.int64)
    for shape, count in Counter(task.facts.shape for task in tasks).items():
        total += count * session.dimensions.vector(shape.request)
    return total
