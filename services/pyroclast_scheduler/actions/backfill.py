"""Action backfill: places pods without requests one by one, in the order of queues, jobs and tasks."""

from __future__ import annotations

from collections.abc import Iterator

from pyroclast_scheduler.model.fit_errors import FitErrors
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.tasks import Task, TaskStatus
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.session.task_placement import explain, find


def execute(session: Session, arguments: Arguments) -> None:  # noqa: ARG001 - its argument is for a cache that is missing here
    """Place each candidate. A job that is ready is bound at once, together with its earlier placements."""
    for job, task in candidates(session):
        plan = session.plan(task.facts.shape)
        why = session.pre_predicate(task, plan)
        if why is not None:
            nodes = int(session.nodes.usable.sum())
            job.fail(task, FitErrors(nodes=nodes, reasons={why: nodes}))
            continue
        batch = find(session, job, task, plan, 1)
        if batch is None:
            job.fail(task, explain(session, job, task, plan))
            continue
        if batch.is_promise:
            session.statement().pipeline(job, plan, [task], batch.rows)
            continue
        if session.statement().allocate(job, plan, [task], batch.rows) and session.job_ready(job):
            session.dispatch(job)


def candidates(session: Session) -> list[tuple[Job, Task]]:
    """Return pending tasks without requests, job by job. Pipelined placements of such tasks are undone first."""
    found: list[tuple[Job, Task]] = []
    by_queue: dict[str, list[Job]] = {}
    for job in session.jobs.values():
        may_have_some = job.tally.pending_best_effort or job.tally[TaskStatus.PIPELINED]
        if may_have_some and not job.is_pending and session.job_invalid(job) is None:
            by_queue.setdefault(job.facts.queue, []).append(job)
    for queue in sorted((session.queues[name] for name in by_queue), key=session.queue_key):
        for job in sorted(by_queue[queue.name], key=session.job_key):
            found += [(job, task) for task in session.waiting_in_order(_without_requests(session, job))]
    return found


def _without_requests(session: Session, job: Job) -> Iterator[Task]:
    for task in job.tasks:
        if task.facts.shape.is_best_effort and not task.facts.gates:
            if task.status is TaskStatus.PIPELINED:
                session.take_back(job, task)
            yield task
