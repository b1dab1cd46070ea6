"""Action allocate: finds nodes for the pods of enqueued jobs, whole gangs at once, in turns between queues and jobs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from pyroclast.api.enums import PodGroupPhase
from pyroclast_scheduler.model.hypernodes import has_topology, is_constrained
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.queues import Queue
from pyroclast_scheduler.model.shapes import Shape
from pyroclast_scheduler.model.tasks import Task, TaskStatus
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.domains import PendingTasks, pending_by_sub_job, place_in_domain, place_job
from pyroclast_scheduler.session.part_placement import place_parts
from pyroclast_scheduler.session.recovery import Recovery, periods_of
from pyroclast_scheduler.session.repacking import place
from pyroclast_scheduler.session.selection import Heap
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.session.statement import Statement
from pyroclast_scheduler.session.task_placement import pending_tasks

_NOT_ASKED: Final = "a pod has the gate of its queue without the annotation that asks for it: it is never removed"
_NOT_READY: Final = "the HyperNodes contradict each other: one has two parents, or lies below itself; jobs with a topology wait"


def execute(session: Session, arguments: Arguments) -> None:
    """Place jobs in the order of queues and jobs, and bind the ready ones. Only pipelined jobs keep their room in the session.

    Argument `recoveryPeriods` (60): for how many schedule periods places are kept for members that a started gang lost.
    """
    periods_of(arguments)
    recovery = session.once(Recovery)
    work = _Work(session, Heap(session.queue_key, is_live=True))
    waiting = [job for job in list(session.jobs.values()) if work.prepare(job)]
    nominated = {job.facts.key: job for job in waiting if _has_nominated(job)} if session.may_evict else {}
    # 1. Room that evictions made is used by those for whom it was made, first where the evicted pods are gone already
    for job in sorted(
        nominated.values(),
        key=lambda job: (
            not _has_its_room(session, job),
            session.queue_key(session.queues[job.facts.queue]),
            session.job_key(job),
        ),
    ):
        _place_nominated(work, job)
    # 2. All others, in turns: the best job of the best queue is placed and committed, or undone. A started gang that lacks
    # members goes before jobs that are no more important
    for job in waiting:
        if job.facts.key not in nominated and not recovery.goes_first(job):
            work.push(job)
    while work.queues or not recovery.is_over:
        queue = work.queues.pop() if work.queues else None
        if queue is None:
            _recover(work, None)
            continue
        jobs = work.jobs[queue.name]
        if session.overused(queue) or not jobs:
            continue
        job = jobs.pop()
        if _recover(work, job.facts.priority):
            jobs.push(job)
        else:
            _place(work, job, is_alone=not jobs and not work.queues and recovery.is_over)
        work.queues.push(queue)
    # 3. Pods behind the gates of queues that have room left
    open_gates(session)


def _place(work: _Work, job: Job, *, is_alone: bool) -> None:
    """Give `job` one turn. `is_alone`: whether no other job waits but equivalent ones."""
    session, placer = work.session, work.placers[job.facts.key]
    statement = placer.place(is_alone and not session.equivalents.has_next(job))
    next_job = None if statement is None else session.equivalents.next_after(job)
    if next_job is not None and work.prepare(next_job):
        work.push(next_job)
    if statement is not None and session.job_ready(job):
        statement.commit()
        if placer.tasks:
            work.push(job)


def _recover(work: _Work, priority: int | None) -> bool:
    """Place what a started gang of at least `priority` lacks, or keep its places. Return whether there is such a gang."""
    session, recovery = work.session, work.session.once(Recovery)
    facts = recovery.next(priority)
    job = None if facts is None else session.job(facts.key)
    if facts is None or job is None:
        return False
    if not session.overused(session.queues[facts.queue]):
        if facts.key in work.placers and not job.is_ready:
            _place(work, job, is_alone=False)
        recovery.keep(job)
    return True


@dataclass(slots=True)
class Placer:
    """How the pods of one job are placed.

    `place` places pods and returns the statement, or None; its argument tells whether no other job waits. `tasks`: those that may
    still be tried, by sub-job for a job that is placed by hypernode.
    """

    place: Callable[[bool], Statement | None]
    tasks: deque[Task] | PendingTasks


def placer_for(session: Session, job: Job) -> Placer | None:
    """Return the placer of an enqueued job; None if it has no pods that could be placed now."""
    if not job.tally[TaskStatus.PENDING] or session.job_invalid(job) is not None:
        return None
    spec, tasks = job.facts.group.spec, pending_tasks(session, job)
    if not tasks:
        return None
    if spec.tree is not None:
        return Placer(lambda _: place_parts(session, job, tasks), tasks)
    if is_constrained(job, session.hyper_nodes):
        if not session.hyper_nodes.is_ready and has_topology(job):
            session.note(job, "Warning", "HyperNodesNotReady", _NOT_READY)
            return None
        pending = pending_by_sub_job(session, job)
        return Placer(lambda _: place_job(session, job, pending), pending)
    if spec.topology_key:
        return Placer(lambda _: place_in_domain(session, job, tasks), tasks)
    return Placer(lambda is_alone: place(session, job, tasks, is_alone=is_alone), tasks)


@dataclass(slots=True)
class _Work:
    """The remaining work: the queues, the jobs of each queue, and the placer of each job."""

    session: Session
    queues: Heap[Queue]
    jobs: dict[str, Heap[Job]] = field(default_factory=dict)
    placers: dict[str, Placer] = field(default_factory=dict)

    def prepare(self, job: Job) -> bool:
        """Make the placer of `job`, which is enqueued at once if there is no action enqueue. Return whether there is one."""
        session = self.session
        if job.is_pending:
            if "enqueue" in session.configuration.actions:
                return False
            if not session.is_within_limits(job):
                return False
            job.phase = PodGroupPhase.INQUEUE
        placer = placer_for(session, job)
        if placer is not None:
            self.placers[job.facts.key] = placer
        return placer is not None

    def push(self, job: Job) -> None:
        """Add `job` to its queue."""
        queue = self.session.queues[job.facts.queue]
        if queue.name not in self.jobs:
            self.jobs[queue.name] = Heap(self.session.job_key)
            self.queues.push(queue)
        self.jobs[queue.name].push(job)


def _has_nominated(job: Job) -> bool:
    """Whether pods were evicted for a waiting task of `job`."""
    return any(task.facts.nominated and task.status is TaskStatus.PENDING for task in job.tasks)


def _has_its_room(session: Session, job: Job) -> bool:
    """Whether a waiting task of `job` fits now on the node on which pods were evicted for it."""
    rows = session.snapshot.rows
    return any(
        (row := rows.get(task.facts.nominated)) is not None
        and session.plan(task.facts.shape).room(np.array([row], dtype=np.intp), future=False)[0] > 0
        for task in job.tasks
        if task.facts.nominated and task.status is TaskStatus.PENDING
    )


def _place_nominated(work: _Work, job: Job) -> None:
    """Place a job for which pods were evicted before others, which would get the room, so that more pods would be evicted.

    Of a job that has its minimum, only the tasks for which pods were evicted go first: the rest would take the room of others.
    """
    session, tasks = work.session, work.placers[job.facts.key].tasks
    later: list[Task] = []
    if isinstance(tasks, deque):
        _reorder(tasks, sorted(tasks, key=lambda task: not task.facts.nominated))
    while True:
        if isinstance(tasks, deque) and session.job_ready(job):
            later += [task for task in tasks if not task.facts.nominated]
            _reorder(tasks, [task for task in tasks if task.facts.nominated])
        statement = work.placers[job.facts.key].place(False) if tasks else None
        if statement is None or not session.job_ready(job):
            break
        statement.commit()
        if not _has_nominated(job):
            if isinstance(tasks, deque):
                later = [*tasks, *later]
            else:
                work.push(job)
            break
    if isinstance(tasks, deque):
        _reorder(tasks, later)
        if tasks:
            work.push(job)


def _reorder(tasks: deque[Task], order: list[Task]) -> None:
    tasks.clear()
    tasks.extend(order)


def open_gates(session: Session) -> None:
    """Remove the gates of as many pods as fit into their queues, in order, beside allocated and earlier admitted pods."""
    found = [
        (session.queues[job.facts.queue], job)
        for job in session.jobs.values()
        if not job.is_pending and any(task.gates and task.is_behind_queue_gate for task in job.facts.tasks)
    ]
    taken: dict[tuple[str, int], int] = {}
    for queue, job in sorted(found, key=lambda each: (session.queue_key(each[0]), session.job_key(each[1]))):
        waiting: dict[int, tuple[Shape, list[Task]]] = {}
        for task in sorted(job.tasks, key=session.task_key):
            if task.status is TaskStatus.PENDING and task.facts.is_behind_queue_gate:
                if task.facts.uses_queue_gate:
                    waiting.setdefault(id(task.facts.shape), (task.facts.shape, []))[1].append(task)
                else:
                    session.note(job, "Warning", "QueueGateNotRequested", _NOT_ASKED)
        for shape, tasks in waiting.values():
            slot = (queue.name, id(shape))
            before = taken.get(slot, 0)
            count = session.allocatable(queue, session.plan(shape), before + len(tasks)) - before
            session.report.let_in += [task.facts for task in tasks[: max(count, 0)]]
            taken[slot] = before + max(count, 0)
