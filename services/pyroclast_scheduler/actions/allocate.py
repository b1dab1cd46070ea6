"""Action allocate: find nodes for the pods of admitted jobs, whole gangs at once, in turns between queues and jobs."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from pyroclast.api.enums import PodGroupPhase
from pyroclast_scheduler.framework.arguments import Arguments
from pyroclast_scheduler.framework.heaps import Heap
from pyroclast_scheduler.framework.jobs import Job, Task
from pyroclast_scheduler.framework.placer import explain, find
from pyroclast_scheduler.framework.plans import Plan
from pyroclast_scheduler.framework.reasons import FitErrors
from pyroclast_scheduler.framework.session import Queue, Session
from pyroclast_scheduler.framework.statement import Statement
from pyroclast_scheduler.model.columns import Bools
from pyroclast_scheduler.model.statuses import READY, TaskStatus

__all__ = ["execute", "worksheet"]


@dataclass(slots=True)
class _Work:
    """What is to be done: queues, the jobs of each, the tasks of each job."""

    session: Session
    queues: Heap[Queue]
    jobs: dict[str, Heap[Job]] = field(default_factory=dict)
    tasks: dict[str, deque[Task]] = field(default_factory=dict)


def execute(session: Session, arguments: Arguments) -> None:  # noqa: ARG001 - its argument tunes a cache that is not needed here
    """Place jobs in the order of queues and jobs. A job is bound when it is ready; else what was tried is undone.

    A job that would be ready if promised room were there keeps its places until the session ends, so that nobody takes them.
    """
    work = _plan_work(session)
    while work.queues:
        queue = work.queues.pop()
        jobs = work.jobs[queue.name]
        if session.overused(queue) or not jobs:
            continue
        job = jobs.pop()
        tasks = work.tasks[job.facts.key]
        is_alone = not jobs and not work.queues
        statement = _place(session, queue, job, tasks, is_alone=is_alone)
        if statement is not None and session.job_ready(job):
            statement.commit()
            if tasks:
                jobs.push(job)
        work.queues.push(queue)


def worksheet(session: Session, job: Job) -> deque[Task]:
    """The tasks of `job` that wait for a node and ask for something, first one first; gated ones are left out."""
    if not job.tally[TaskStatus.PENDING]:
        return deque()
    waiting = [
        task
        for task in job.tasks
        if task.status is TaskStatus.PENDING and not task.facts.gates and not task.facts.shape.is_best_effort
    ]
    return deque(sorted(waiting, key=session.task_key))


def _plan_work(session: Session) -> _Work:
    work = _Work(session, Heap(session.queue_key))
    is_enqueue_on = "enqueue" in session.configuration.actions
    for job in session.jobs.values():
        if job.is_pending:
            if is_enqueue_on:
                continue
            job.phase = PodGroupPhase.INQUEUE
        if session.job_invalid(job) is not None:
            continue
        tasks = worksheet(session, job)
        if not tasks:
            continue
        queue = session.queues[job.facts.queue]
        if queue.name not in work.jobs:
            work.jobs[queue.name] = Heap(session.job_key)
            work.queues.push(queue)
        work.jobs[queue.name].push(job)
        work.tasks[job.facts.key] = tasks
    return work


def _place(session: Session, queue: Queue, job: Job, tasks: deque[Task], *, is_alone: bool) -> Statement | None:
    """Place tasks until `job` is ready; the statement if it is, or would be; None, with everything undone, if not."""
    statement = session.statement()
    while tasks:
        plan = session.plan(tasks[0].facts.shape)
        run = _run(tasks)
        count = session.allocatable(queue, plan, len(run))
        if count == 0:
            _drop(tasks, len(run))
            continue
        if tasks[0].facts.role and tasks[0].facts.role in job.failed_roles:
            _skip(job, [tasks.popleft() for _ in run], like=run[0])
            continue
        count = min(count, _wanted(session, queue, job, plan, len(run), is_alone=is_alone))
        missed = _place_run(session, statement, job, plan, [tasks.popleft() for _ in range(count)])
        if missed:
            if not _may_go_on(job):
                break
            while tasks and _alike(missed[0], tasks[0]):
                missed.append(tasks.popleft())
            _skip(job, missed[1:], like=missed[0])
        elif session.job_ready(job):
            break
    if session.job_ready(job) or session.job_pipelined(job):
        return statement
    statement.discard()
    return None


def _place_run(session: Session, statement: Statement, job: Job, plan: Plan, run: list[Task]) -> list[Task]:
    """Place equal tasks; those that fit nowhere, with the errors of the first noted."""
    why = session.pre_predicate(run[0], plan)
    if why is not None:
        nodes = int(session.usable.sum())
        job.fail(run[0], FitErrors(nodes=nodes, reasons={why: nodes}))
        return run
    while run:
        task = run[0]
        batch = None
        nominated = _nominated(session, task)
        if nominated is not None:
            batch = find(session, plan, task, 1, within=nominated)
        if batch is None:
            batch = find(session, plan, task, 1 if nominated is not None else len(run))
        if batch is None:
            job.fail(task, explain(session, plan, task))
            return run
        placed, run = run[: len(batch.rows)], run[len(batch.rows) :]
        if batch.is_promise:
            statement.pipeline(job, plan, placed, batch.rows)
        else:
            statement.allocate(job, plan, placed, batch.rows)
    return run


def _wanted(session: Session, queue: Queue, job: Job, plan: Plan, available: int, *, is_alone: bool) -> int:
    """How many of `available` equal tasks may be placed before somebody else must be asked first.

    Up to the gang's minimum nobody is; beyond it queues and jobs take turns, unless there is only this one.
    """
    if not session.job_ready(job):
        return min(available, max(1, job.tally.missing(job.facts.min_available, job.facts.role_minimum)))
    if not is_alone or available == 1:
        return 1
    return 1 + bisect_left(range(1, available), True, key=lambda more: session.overused(queue, plan.request * more))


def _run(tasks: deque[Task]) -> list[Task]:
    """The tasks at the front that are alike."""
    run: list[Task] = []
    for task in tasks:
        if not _alike(tasks[0], task):
            break
        run.append(task)
    return run


def _alike(a: Task, b: Task) -> bool:
    return a.facts.shape is b.facts.shape and a.facts.role == b.facts.role


def _drop(tasks: deque[Task], count: int) -> None:
    for _ in range(count):
        tasks.popleft()


def _skip(job: Job, tasks: list[Task], *, like: Task) -> None:
    """Note tasks that need not be tried because `like`, or one of its role before it, fits nowhere."""
    for task in tasks:
        role = task.facts.role
        if role:
            job.fail(task, FitErrors(f"Task {task.facts.name} with role spec {role} has already predicated failed, skip"))
        else:
            job.fail(task, job.fit_errors[like.uid])


def _nominated(session: Session, task: Task) -> Bools | None:
    """The node that was made free for `task`, as a mask; None if there is none."""
    row = session.snapshot.rows.get(task.facts.pod.status.nominated_node_name)
    if row is None:
        return None
    mask = np.zeros(len(session.names), dtype=np.bool_)
    mask[row] = True
    return mask


def _may_go_on(job: Job) -> bool:
    """Whether other tasks of `job` may still make it ready although one fits nowhere."""
    facts = job.facts
    if facts.min_available >= len(facts.tasks):
        return False
    failed = job.failed_roles
    roles = facts.role_minimum
    if facts.min_available < sum(roles.values()):
        left = sum(task.status is TaskStatus.PENDING and task.facts.role not in failed for task in job.tasks)
        return job.tally.ready + left >= facts.min_available
    for role in failed:
        counts = job.tally.roles.get(role)
        if roles.get(role) and counts is not None:
            allocated = sum(counts[status] for status in READY) + counts[-1]
            if allocated < roles[role]:
                return False
    return True
