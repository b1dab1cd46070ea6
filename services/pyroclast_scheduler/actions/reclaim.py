"""Action reclaim: jobs of queues below their deserved share evict pods of queues above their deserved share."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from pyroclast_scheduler.eviction.infeasible import InfeasibleNodes
from pyroclast_scheduler.eviction.preemptor_order import make_room, starving, take_turns
from pyroclast_scheduler.eviction.victims import Residents, first_to_go, has_enough, may_hold, needed, would_fit
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.queues import Queue
from pyroclast_scheduler.model.statuses import TaskStatus
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.minimum_run_time import MinimumRunTime
from pyroclast_scheduler.session.search import fits, resolvable
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.session.statement import Statement

__all__ = ["execute"]

_REASON: Final = "reclaim"


def execute(session: Session, arguments: Arguments) -> None:
    """Evict pods of other queues for the starving jobs of each queue that is not overused, for whole gangs or not at all.

    Argument: `minimumRunTime` (0s).
    """
    residents = Residents(session, MinimumRunTime(session, arguments))
    waiting = starving(session)
    if not waiting:
        return
    infeasible = InfeasibleNodes(session)
    for queue, jobs in waiting:
        if not session.overused(queue):
            take_turns(session, jobs, partial(_reclaim_for_job, session, residents, infeasible, queue))


def _reclaim_for_job(session: Session, residents: Residents, infeasible: InfeasibleNodes, queue: Queue, job: Job) -> bool:
    """Reclaim for one job. Return whether it got any room."""

    def take(statement: Statement, task: Task) -> None:
        plan = session.plan(task.facts.shape)
        if task.facts.pod.spec.preemption_policy == "Never":
            return
        is_entitled = session.preemptive(queue, plan.request) and session.pre_predicate(task, plan) is None
        if is_entitled and may_hold(session, plan).any():
            _reclaim_for_task(session, residents, infeasible, statement, job, task)

    return make_room(session, job, take)


def _reclaim_for_task(  # noqa: PLR0917
    session: Session, residents: Residents, infeasible: InfeasibleNodes, statement: Statement, job: Job, task: Task
) -> None:
    """Pipeline `task` to the first node on which enough pods of other queues can be evicted, and evict them.

    The nodes of this scheduler's shard are tried first.
    """
    plan = session.plan(task.facts.shape)

    def keep(owner: Job, victim: Task) -> bool:
        if victim.status is not TaskStatus.RUNNING or not session.is_preemptable(owner, victim):
            return False
        return owner.facts.queue != job.facts.queue and session.queues[owner.facts.queue].facts.is_reclaimable

    kind, anybody = infeasible.kind(job, task), job.facts.queue  # the candidates are the same for all jobs of the queue
    if infeasible.is_infeasible(kind):
        return
    is_tried = False
    nodes = resolvable(session, job, task, plan) & residents.beside(job.facts.queue) & may_hold(session, plan)
    rows = np.flatnonzero(infeasible.open(kind, infeasible.open(anybody, nodes)))
    if session.nodes.preferred is not None:
        rows = rows[np.argsort(~session.nodes.preferred[rows], kind="stable")]
    has_room, skip = would_fit(session, plan), partial(infeasible.add, kind)
    for row in residents.promising(rows.tolist(), job, is_reclaim=True, besides=has_room, skip=skip):
        candidates = residents.evictable(row, job, keep)
        if not candidates:
            infeasible.add(kind if row in residents.withheld else anybody, row)
            continue
        victims = session.reclaimable(task, job, candidates)
        if not has_enough(session, plan, row, victims):
            infeasible.add(kind, row)
            continue
        is_tried = True
        attempt = session.statement()
        ordered = first_to_go(session, victims, session.queues[job.facts.queue])
        is_enough = partial(has_enough, session, plan, row)
        count = next(count for count in range(len(ordered) + 1) if is_enough(ordered[:count]))
        for owner, victim in needed(ordered[:count], is_enough):
            attempt.evict(owner, session.plan(victim.facts.shape), victim, _REASON)
        if not fits(session, job, task, plan, row):  # evict no pods for room that the task cannot use
            attempt.discard()
            continue
        if attempt.pipeline(job, plan, [task], np.array([row], dtype=np.intp), evicted_others=bool(attempt.moves)):
            statement.merge(attempt)
            return
        attempt.discard()
    if not is_tried:
        infeasible.give_up(kind)
