"""Action allocate: find nodes for the pods of admitted jobs, whole gangs at once, in turns between queues and jobs."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from pyroclast.api.enums import PodGroupPhase
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.queues import Queue
from pyroclast_scheduler.model.statuses import TaskStatus
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.model.topology import has_topology
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.domains import Sheets, is_constrained, place_job, sheets_of
from pyroclast_scheduler.session.gates import open_gates
from pyroclast_scheduler.session.heaps import Heap
from pyroclast_scheduler.session.placing import place, worksheet
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.session.statement import Statement

__all__ = ["execute"]

_NOT_READY = "the HyperNodes contradict each other: one has two parents, or lies below itself; jobs with a topology wait"


@dataclass(slots=True)
class _Work:
    """What is to be done: queues, the jobs of each, the tasks of each job, those of constrained ones by sub-job."""

    session: Session
    queues: Heap[Queue]
    jobs: dict[str, Heap[Job]] = field(default_factory=dict)
    tasks: dict[str, deque[Task]] = field(default_factory=dict)
    sheets: dict[str, Sheets] = field(default_factory=dict)


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
        statement, is_more = _place(work, job, is_alone=not jobs and not work.queues)
        if statement is not None and session.job_ready(job):
            statement.commit()
            if is_more:
                jobs.push(job)
        work.queues.push(queue)
    open_gates(session)


def _place(work: _Work, job: Job, *, is_alone: bool) -> tuple[Statement | None, bool]:
    """What could be placed of `job`, and whether tasks of it are left that may still be tried."""
    sheets = work.sheets.get(job.facts.key)
    if sheets is not None:
        return place_job(work.session, job, sheets), bool(sheets)
    tasks = work.tasks[job.facts.key]
    return place(work.session, job, tasks, is_alone=is_alone), bool(tasks)


def _plan_work(session: Session) -> _Work:
    work = _Work(session, Heap(session.queue_key, is_live=True))
    is_enqueue_on = "enqueue" in session.configuration.actions
    for job in session.jobs.values():
        if job.is_pending:
            if is_enqueue_on:
                continue
            job.phase = PodGroupPhase.INQUEUE
        if not job.tally[TaskStatus.PENDING] or session.job_invalid(job) is not None:
            continue
        tasks = worksheet(session, job)
        if not tasks:
            continue
        if not is_constrained(session, job):
            work.tasks[job.facts.key] = tasks
        elif session.hyper_nodes.is_ready or not has_topology(job):
            work.sheets[job.facts.key] = sheets_of(session, job)
        else:
            session.note(job, "Warning", "HyperNodesNotReady", _NOT_READY)
            continue
        queue = session.queues[job.facts.queue]
        if queue.name not in work.jobs:
            work.jobs[queue.name] = Heap(session.job_key)
            work.queues.push(queue)
        work.jobs[queue.name].push(job)
    return work
