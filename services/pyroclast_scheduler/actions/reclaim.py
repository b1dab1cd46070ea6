"""Action reclaim: jobs of queues below their deserved share evict pods of queues above their deserved share."""

from __future__ import annotations

from functools import partial

import numpy as np

from pyroclast_scheduler.eviction.freeable import would_fit
from pyroclast_scheduler.eviction.infeasible import InfeasibleNodes
from pyroclast_scheduler.eviction.preemptor_order import make_room, starving, take_turns
from pyroclast_scheduler.eviction.search import VictimSearch, Wish
from pyroclast_scheduler.eviction.victims import Residents
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.queues import Queue
from pyroclast_scheduler.model.tasks import Task, TaskStatus
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.minimum_run_time import MinimumRunTime
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.session.statement import Statement
from pyroclast_scheduler.session.task_placement import resolvable


def execute(session: Session, arguments: Arguments) -> None:
    """Evict pods of other queues for starving jobs of queues that are not overused. Argument: `minimumRunTime` (0s)."""
    residents = Residents(session, MinimumRunTime(session, arguments))
    waiting = starving(session)
    if not waiting:
        return
    search = VictimSearch(session, residents, InfeasibleNodes(session), is_reclaim=True)
    for queue, jobs in waiting:
        if not session.overused(queue):
            take_turns(session, jobs, partial(_reclaim_for_job, session, search, queue))


def _reclaim_for_job(session: Session, search: VictimSearch, queue: Queue, job: Job) -> Statement | None:
    """Reclaim for one job. Return what makes room for it, applied; None if nothing does."""

    def may_go(owner: Job, victim: Task) -> bool:
        if victim.status is not TaskStatus.RUNNING or not session.is_preemptable(owner, victim):
            return False
        return owner.facts.queue != queue.name and session.queues[owner.facts.queue].facts.is_reclaimable

    def take(statement: Statement, task: Task) -> None:
        plan = session.plan(task.facts.shape)
        if task.facts.pod.spec.preemption_policy == "Never":
            return
        if session.preemptive(queue, plan.request) and session.pre_predicate(task, plan) is None:
            _reclaim_for_task(session, search, statement, Wish(job, task, plan, may_go, search.infeasible.kind(job, task)))

    return make_room(session, job, take)


def _reclaim_for_task(session: Session, search: VictimSearch, statement: Statement, wish: Wish) -> None:
    """Pipeline the task to the first node, own nodes first, on which enough pods can be evicted, and evict them."""
    if search.infeasible.is_infeasible(wish.kind):
        return
    nodes = search.infeasible.open(wish.kind, search.nodes(wish))
    rows = np.flatnonzero(nodes & resolvable(session, wish.job, wish.task, wish.plan))
    if session.nodes.preferred is not None:
        rows = rows[np.argsort(~session.nodes.preferred[rows], kind="stable")]
    for row, victims in search.victims(wish, rows.tolist(), would_fit(session, wish.plan), may_evict_none=True):
        if search.place(statement, wish, row, victims):
            return
