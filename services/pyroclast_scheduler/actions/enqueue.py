"""Action enqueue: enqueues PodGroups, so that their pods are created and placed; one job per turn of a queue.

Room is kept for an enqueued gang until its pods are placed. Enqueueing is therefore undone for a gang whose pods do not come, and
for a gang that keeps a more important one waiting, see `session.promises`.
"""

from __future__ import annotations

from typing import Final

from pyroclast.api.enums import PodGroupPhase
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast_scheduler.model.causes import Cause
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.queues import Queue
from pyroclast_scheduler.model.triggers import AnyRoom, QueueUse
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.enqueue_refusals import named_for
from pyroclast_scheduler.session.promises import patience_of
from pyroclast_scheduler.session.recovery import Recovery
from pyroclast_scheduler.session.selection import Heap
from pyroclast_scheduler.session.session import Session

_ROOM: Final = frozenset(
    {PendingReason.QUEUE_FULL, PendingReason.CLUSTER_FULL, PendingReason.BEHIND_ANOTHER, PendingReason.HELD_BY_GUARANTEE}
)


def execute(session: Session, arguments: Arguments) -> None:
    """Try to enqueue each pending job of each queue, best first. A refused job does not block the jobs behind it.

    Argument `promisePeriods` (10): for how many schedule periods room is kept for a gang while no pod comes, or no node is found.
    """
    patience_of(arguments)
    # 1. Give up the room of gangs whose pods do not come
    for job in list(session.jobs.values()):
        if job.phase is PodGroupPhase.INQUEUE and session.promises.is_overdue(job):
            session.promises.take_back(job.facts)
            job.phase = PodGroupPhase.PENDING
    # 2. Order the pending jobs
    queues: Heap[Queue] = Heap(session.queue_key)
    pending: dict[str, Heap[Job]] = {}
    for job in session.jobs.values():
        queue = session.queues[job.facts.queue]
        if queue.name not in pending:
            pending[queue.name] = Heap(session.job_key)
            queues.push(queue)
        if job.is_pending:
            session.promises.settle()
            pending[queue.name].push(job)
    # 3. Enqueue them in turns
    while queues:
        queue = queues.pop()
        jobs = pending[queue.name]
        if not jobs:
            continue
        job = jobs.pop()
        if job.facts.group.spec.hold is None and _may_enter(session, job):
            session.promises.give(job)
            session.job_enqueued(job)
            job.phase = PodGroupPhase.INQUEUE
            next_job = session.equivalents.next_after(job)
            if next_job is not None:
                jobs.push(next_job)
        queues.push(queue)


def _may_enter(session: Session, job: Job) -> bool:
    """Whether `job` may be enqueued, if needed in place of less important gangs, which then wait again.

    A gang that lost members was let in before: its places are kept, and not promised to others.
    """
    if session.once(Recovery).goes_first(job):
        return True
    if session.promises.must_wait(job):
        session.refuse(job, _pods_missing(session, job))
        return False
    if session.may_enter(job):
        return True
    refusal = job.cause
    if refusal is None or refusal.reason not in _ROOM:
        return False

    def is_enough() -> bool:
        job.cause = None
        return session.job_enqueueable(job)

    displaced = session.promises.make_room(job, is_enough)
    if not displaced:
        job.cause = refusal
        return False
    for facts in displaced:
        if (other := session.job(facts.key)) is not None:
            session.jobs[facts.key] = other
            other.phase, other.cause = PodGroupPhase.PENDING, _displaced(other, job)
    job.cause = None
    return session.may_enter(job)


def _displaced(job: Job, other: Job) -> Cause:
    text = f"not now: its room was promised to {named_for(job, other.facts)} (priority {other.facts.priority}), which goes first"
    return Cause(PendingReason.BEHIND_ANOTHER, lambda: text, retry_when=frozenset({AnyRoom(), QueueUse()}))


def _pods_missing(session: Session, job: Job) -> Cause:
    pods, least, patience = job.facts.tally.valid, job.facts.min_available, session.promises.patience
    here = f"{pods} of at least {least} pods {'is' if pods == 1 else 'are'} there"
    when = f"when more come, or in {session.promises.must_wait(job)} schedule periods"
    text = f"not now: {here}, and no further pod came in {patience} schedule periods; it is let in again {when}"
    return Cause(PendingReason.PODS_MISSING, lambda: text)
