"""Action enqueue: enqueues PodGroups, so that their pods are created and placed; one job per turn of a queue."""

from __future__ import annotations

from pyroclast.api.enums import PodGroupPhase
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.queues import Queue
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.heaps import Heap
from pyroclast_scheduler.session.session import Session


def execute(session: Session, arguments: Arguments) -> None:  # noqa: ARG001 - the signature of every action
    """Try to enqueue each pending job of each queue, best first. A refused job does not block the jobs behind it."""
    queues: Heap[Queue] = Heap(session.queue_key)
    pending: dict[str, Heap[Job]] = {}
    for job in session.jobs.values():
        queue = session.queues[job.facts.queue]
        if queue.name not in pending:
            pending[queue.name] = Heap(session.job_key)
            queues.push(queue)
        if job.is_pending:
            pending[queue.name].push(job)
    while queues:
        queue = queues.pop()
        jobs = pending[queue.name]
        if not jobs:
            continue
        job = jobs.pop()
        if job.facts.group.spec.hold is not None:
            queues.push(queue)
            continue
        if session.may_enter(job):
            session.job_enqueued(job)
            job.phase = PodGroupPhase.INQUEUE
            next_job = session.equivalents.next_after(job)
            if next_job is not None:
                jobs.push(next_job)
        queues.push(queue)
