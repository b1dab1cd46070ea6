"""Preemptive reservations: pods with lower priority are evicted from locked nodes at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyroclast_scheduler.eviction.victim_groups import allowed, split
from pyroclast_scheduler.eviction.victims import Residents
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.statuses import ALLOCATED
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.session.extension_points import GangEviction
from pyroclast_scheduler.session.session import Session

_REASON: Final = "reserve"


def evict_lower(session: Session, job: Job, rows: Sequence[int]) -> None:
    """Evict pods of jobs with lower priority from `rows`, of any queue.

    A gang that would be broken is evicted as a whole or not at all.
    """
    residents = Residents(session)
    by_owner: dict[str, tuple[Job, list[Task]]] = {}
    for row in rows:
        for owner, task in residents.on(row, lambda owner, task: _is_lower(session, job, owner, task)):
            by_owner.setdefault(owner.facts.key, (owner, []))[1].append(task)
    bundles = []
    for owner, tasks in by_owner.values():
        for bundle in split(owner, tasks):
            if bundle.is_whole:
                bundle.tasks = [task for task in owner.tasks if task.status in ALLOCATED and task.row >= 0]
            bundles.append(bundle)
    candidates = [(bundle.job, task) for bundle in bundles for task in bundle.tasks if session.is_preemptable(bundle.job, task)]
    if not candidates:
        return
    wish = GangEviction(job, session.hyper_nodes.top, is_reclaim=False)
    statement = session.statement()
    gone: set[str] = set()
    for bundle in allowed(bundles, session.unified_evictable(wish, candidates)):
        for task in bundle.tasks:
            if task.uid not in gone:
                gone.add(task.uid)
                statement.evict(bundle.job, session.plan(task.facts.shape), task, _REASON)
    statement.commit()


def _is_lower(session: Session, job: Job, owner: Job, task: Task) -> bool:
    return owner is not job and owner.facts.priority < job.facts.priority and session.is_preemptable(owner, task)
