"""Action allocate: finds nodes for the pods of enqueued jobs, whole gangs at once, in turns between queues and jobs."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from pyroclast.api.enums import PodGroupPhase
from pyroclast_scheduler.model.hypernodes import has_topology
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.queues import Queue
from pyroclast_scheduler.model.shapes import Shape
from pyroclast_scheduler.model.tasks import Task, TaskStatus
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.domains import PendingTasks, is_constrained, pending_by_sub_job, place_in_domain, place_job
from pyroclast_scheduler.session.part_placement import place_parts
from pyroclast_scheduler.session.selection import Heap
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.session.statement import Statement
from pyroclast_scheduler.session.task_placement import pending_tasks, place
from pyroclast_scheduler.session.unschedulable import may_evict

_NOT_ASKED: Final = "a pod has the gate of its queue without the annotation that asks for it: it is never removed"


def open_gates(session: Session) -> None:
    """Remove the gates of as many pods as fit into their queues, beside allocated and earlier admitted pods.

    Queues and jobs are served in the order of the session.
    """
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


_NOT_READY = "the HyperNodes contradict each other: one has two parents, or lies below itself; jobs with a topology wait"


@dataclass(slots=True)
class _Work:
    """The remaining work: the queues, the jobs of each queue, and the tasks of each job.

    `pending`: the tasks by sub-job, for jobs that are placed by hypernode.
    """

    session: Session
    queues: Heap[Queue]
    jobs: dict[str, Heap[Job]] = field(default_factory=dict)
    tasks: dict[str, deque[Task]] = field(default_factory=dict)
    pending: dict[str, PendingTasks] = field(default_factory=dict)

    def take_up(self, job: Job) -> None:
        """Add `job` to its queue if it has tasks to be placed."""
        if self.has_tasks(job):
            self.push(job)

    def has_tasks(self, job: Job) -> bool:
        """Whether `job` has tasks to be placed, which are kept."""
        session = self.session
        if job.is_pending:
            if "enqueue" in session.configuration.actions:
                return False
            if session.budgets is not None and not session.budgets.may_enter(job, is_let_in=True):
                return False
            job.phase = PodGroupPhase.INQUEUE
        if not job.tally[TaskStatus.PENDING] or session.job_invalid(job) is not None:
            return False
        tasks = pending_tasks(session, job)
        if not tasks:
            return False
        if job.facts.group.spec.tree is not None or not is_constrained(session, job):
            self.tasks[job.facts.key] = tasks
        elif session.hyper_nodes.is_ready or not has_topology(job):
            self.pending[job.facts.key] = pending_by_sub_job(session, job)
        else:
            session.note(job, "Warning", "HyperNodesNotReady", _NOT_READY)
            return False
        return True

    def push(self, job: Job) -> None:
        """Add `job` to its queue."""
        queue = self.session.queues[job.facts.queue]
        if queue.name not in self.jobs:
            self.jobs[queue.name] = Heap(self.session.job_key)
            self.queues.push(queue)
        self.jobs[queue.name].push(job)


def execute(session: Session, arguments: Arguments) -> None:  # noqa: ARG001 - its argument is for a cache that is missing here
    """Place jobs in the order of queues and jobs. A ready job is bound; otherwise its trial is undone.

    A job that is only pipelined keeps its room until the session ends, so that no other job uses it.
    """
    work = _Work(session, Heap(session.queue_key, is_live=True))
    waiting = [job for job in list(session.jobs.values()) if work.has_tasks(job)]
    nominated = {job.facts.key: job for job in waiting if _has_nominated(job)} if may_evict(session.configuration) else {}
    # 1. room that evictions made is used by those for whom it was made
    for job in sorted(
        nominated.values(), key=lambda job: (session.queue_key(session.queues[job.facts.queue]), session.job_key(job))
    ):
        _place_nominated(work, job)
    # 2. all others, in turns
    for job in waiting:
        if job.facts.key not in nominated:
            work.push(job)
    while work.queues:
        queue = work.queues.pop()
        jobs = work.jobs[queue.name]
        if session.overused(queue) or not jobs:
            continue
        job = jobs.pop()
        is_alone = not jobs and not work.queues and not session.equivalents.has_next(job)
        statement, is_more = _place(work, job, is_alone=is_alone)
        next_job = None if statement is None else session.equivalents.next_after(job)
        if next_job is not None:
            work.take_up(next_job)
        if statement is not None and session.job_ready(job):
            statement.commit()
            if is_more:
                jobs.push(job)
        work.queues.push(queue)
    open_gates(session)


def _has_nominated(job: Job) -> bool:
    """Whether pods were evicted for a waiting task of `job`."""
    return any(task.facts.nominated and task.status is TaskStatus.PENDING for task in job.tasks)


def _place_nominated(work: _Work, job: Job) -> None:
    """Place a job for which pods were evicted before all other jobs, since the room is made for it.

    Otherwise the evicted pods, or others, would get the room back, and pods would be evicted for the job again and again.
    """
    session, is_more = work.session, True
    tasks = work.tasks.get(job.facts.key)
    if tasks is not None:
        work.tasks[job.facts.key] = deque(sorted(tasks, key=lambda task: not task.facts.nominated))
    while is_more:
        statement, is_more = _place(work, job, is_alone=False)
        if statement is None or not session.job_ready(job):
            return
        statement.commit()
        if not _has_nominated(job):
            break
    if is_more:
        work.push(job)


def _place(work: _Work, job: Job, *, is_alone: bool) -> tuple[Statement | None, bool]:
    """Place tasks of `job`. Return the statement, and whether tasks are left that may still be tried."""
    pending = work.pending.get(job.facts.key)
    if pending is not None:
        return place_job(work.session, job, pending), bool(pending)
    tasks = work.tasks[job.facts.key]
    if job.facts.group.spec.tree is not None:
        return place_parts(work.session, job, tasks), bool(tasks)
    if job.facts.group.spec.topology_key:
        return place_in_domain(work.session, job, tasks), bool(tasks)
    return place(work.session, job, tasks, is_alone=is_alone), bool(tasks)
