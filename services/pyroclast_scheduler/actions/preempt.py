"""Action preempt: inside a queue, what matters more takes the place of what matters less."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from pyroclast_scheduler.framework.arguments import Arguments
from pyroclast_scheduler.framework.heaps import Heap
from pyroclast_scheduler.framework.jobs import Job, Task
from pyroclast_scheduler.framework.placer import ranked
from pyroclast_scheduler.framework.plans import Plan
from pyroclast_scheduler.framework.session import Queue, Session
from pyroclast_scheduler.framework.statement import Statement
from pyroclast_scheduler.framework.victims import Residents, first_to_go, fits_when_free, has_enough, resolvable
from pyroclast_scheduler.model.statuses import TaskStatus

__all__ = ["execute"]

_REASON: Final = "preempt"
_BY_SCHEDULER: Final = ("DisruptionTarget", "True", "PreemptionByScheduler")
_Keep = Callable[[Job, Task], bool]


def execute(session: Session, arguments: Arguments) -> None:
    """First jobs against other jobs of their queue, then the tasks of each starving job against each other."""
    if arguments.boolean("enableTopologyAwarePreemption", default=False):
        arguments.warnings.append("enableTopologyAwarePreemption is not available yet: the normal mode is used")
    queues: Heap[Queue] = Heap(session.queue_key)
    starving: dict[str, list[Job]] = {}
    for job in session.jobs.values():
        has_topology = job.facts.group.spec.network_topology is not None
        if job.is_pending or has_topology or session.job_invalid(job) is not None or not session.job_starving(job):
            continue
        if job.facts.queue not in starving:
            starving[job.facts.queue] = []
            queues.push(session.queues[job.facts.queue])
        starving[job.facts.queue].append(job)
    if not starving:
        return
    residents = Residents(session)
    while queues:
        jobs = starving[queues.pop().name]
        for job in sorted(jobs, key=session.job_key):
            _against_others(session, residents, job)
        for job in jobs:
            _against_itself(session, residents, job)


def _against_others(session: Session, residents: Residents, job: Job) -> None:
    statement = session.statement()
    tasks = _waiting(session, job)
    while tasks and session.job_starving(job):
        task = tasks.popleft()

        def keep(owner: Job, victim: Task, task: Task = task) -> bool:
            return owner is not job and owner.facts.queue == job.facts.queue and _may_go(task, victim)

        _Attempt(session, residents, job, task, keep).succeeds(statement)
    if session.job_pipelined(job):
        statement.commit()
    else:
        statement.discard()


def _against_itself(session: Session, residents: Residents, job: Job) -> None:
    for task in _waiting(session, job):

        def keep(owner: Job, victim: Task, task: Task = task) -> bool:
            return owner is job and _may_go(task, victim)

        statement = session.statement()
        if not _Attempt(session, residents, job, task, keep).succeeds(statement):
            statement.discard()
            return
        statement.commit()


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A task of `job` that wants a place; `keep` tells which pods it may take it from."""

    session: Session
    residents: Residents
    job: Job
    task: Task
    keep: _Keep

    def succeeds(self, statement: Statement) -> bool:
        """Promise the task the best node on which enough pods may go, and evict them; whether there was one."""
        session, task = self.session, self.task
        plan = session.plan(task.facts.shape)
        if not _is_eligible(session, self.residents, plan, task) or session.pre_predicate(task, plan) is not None:
            return False
        return any(self._on(statement, plan, row) for row in ranked(session, plan, task, resolvable(session, plan, task)))

    def _on(self, statement: Statement, plan: Plan, row: int) -> bool:
        session, task = self.session, self.task
        victims = session.preemptable(task, self.job, self.residents.on(row, self.keep))
        if not has_enough(session, plan, row, victims):
            return False
        queue = session.queues[self.job.facts.queue]
        trial = session.statement()

        def fits() -> bool:
            return bool(session.allocatable(queue, plan, 1)) and fits_when_free(session, plan, task, row)

        is_room_made = False
        ordered = deque(first_to_go(session, victims))
        while ordered and not fits():
            owner, victim = ordered.popleft()
            is_room_made |= not victim.facts.shape.is_best_effort
            trial.evict(owner, session.plan(victim.facts.shape), victim, _REASON)
        if not fits():
            trial.discard()
            return False
        trial.pipeline(self.job, plan, [task], np.array([row], dtype=np.intp), evicted_others=is_room_made)
        statement.merge(trial)
        return True


def _may_go(preemptor: Task, victim: Task) -> bool:
    if preemptor.facts.shape.is_best_effort and not victim.facts.shape.is_best_effort:
        return False
    return victim.facts.is_preemptable


def _waiting(session: Session, job: Job) -> deque[Task]:
    if not job.tally[TaskStatus.PENDING]:
        return deque()
    found = [task for task in job.tasks if task.status is TaskStatus.PENDING and not task.facts.gates]
    return deque(sorted(found, key=session.task_key))


def _is_eligible(session: Session, residents: Residents, plan: Plan, task: Task) -> bool:
    """Whether `task` may take places: not if it must not, nor while the place it was promised is being made free."""
    pod = task.facts.pod
    if pod.spec.preemption_policy == "Never":
        return False
    nominated = pod.status.nominated_node_name
    if not nominated:
        return True
    row = session.snapshot.rows.get(nominated)
    if row is None or not session.usable[row]:
        return False
    if not resolvable(session, plan, task)[row]:
        return True
    if fits_when_free(session, plan, task, row):
        return False
    return not any(_makes_room(victim, pod.spec.priority or 0) for victim in residents.going(row))


def _makes_room(victim: Task, priority: int) -> bool:
    """Whether `victim` is on its way out because it was preempted by somebody of that priority."""
    pod = victim.facts.pod
    says = {(each.type, each.status, each.reason) for each in pod.status.conditions}
    return (pod.spec.priority or 0) < priority and pod.metadata.is_terminating and _BY_SCHEDULER in says
