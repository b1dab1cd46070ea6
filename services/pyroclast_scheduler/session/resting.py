"""When a job that a session could do nothing for is worth another look, and before a session, which of those that rest are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from pyroclast.api import records
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.statuses import TaskStatus
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.model.waits import Evicts, Limit, Rest
from pyroclast_scheduler.session.domains import is_constrained
from pyroclast_scheduler.session.session import Session

__all__ = ["WAITING", "freed", "rest_of"]

WAITING: Final = frozenset({TaskStatus.PENDING, TaskStatus.PIPELINED, TaskStatus.ALLOCATED})


def rest_of(session: Session, job: Job, *, has_promises: bool) -> Rest | None:
    """When the job is worth another look; None if in the next session already."""
    tally = job.tally
    if not any(tally[status] for status in WAITING) and not job.is_pending:
        return Rest(job.facts)
    if session.is_restless or tally[TaskStatus.PIPELINED] or tally[TaskStatus.ALLOCATED]:
        return None
    if job.is_pending:
        return Rest(job.facts, is_wary=True, is_timed=session.is_timed, limit=_limit_of_entry(session, job))
    waiting = [task for task in job.tasks if task.status is TaskStatus.PENDING and not task.facts.gates]
    if any(task.uid in session.snapshot.held for task in waiting):
        return None
    if any(task.facts.is_behind_queue_gate and task.facts.uses_queue_gate for task in job.tasks):
        return Rest(job.facts, is_wary=True, is_timed=session.is_timed)  # the queue may get room for it
    if session.job_invalid(job) is not None or not waiting:
        return Rest(job.facts)
    evicts, lacking = session.evicts, _lacking(session, job, waiting)
    is_wary = has_promises or evicts is None or _is_wary(session, job, waiting)
    return Rest(
        job.facts,
        frozenset(task.facts.shape for task in waiting),
        lacking,
        is_wary=is_wary,
        is_timed=session.is_timed,
        evicts=evicts or Evicts.NOBODY,
        limit=_limit_of_pods(session, job, waiting, lacking) if is_wary else None,
    )


def freed(session: Session) -> set[str]:
    """The keys of limited jobs whose limit no longer holds, as things are before any action.

    What a queue may take only shrinks while a session fills room, so who is refused now is refused until it ends.
    """
    limited = session.snapshot.limited
    kept: dict[Limit, bool] = {}
    same: dict[int, bool] = {}
    found: set[str] = set()
    for facts in session.snapshot.jobs:
        limit = limited.get(facts.key)
        if limit is None:
            continue
        queue = id(limit.record)
        if queue not in same:
            same[queue] = _is_as_it_was(session, limit.record)
        if same[queue] and limit not in kept:
            kept[limit] = _holds(session, limit, facts.key)
        if not same[queue] or not kept[limit]:
            found.add(facts.key)
    return found


def _is_as_it_was(session: Session, record: records.Queue) -> bool:
    """Whether what its jobs say of the queue is still true."""
    queue = session.queues.get(record.metadata.name)
    if queue is None:
        return False
    now = queue.facts.record
    return now is record or (now.spec, now.status.state) == (record.spec, record.status.state)


def _holds(session: Session, limit: Limit, key: str) -> bool:
    if not limit.shapes:
        job = session.job(key)
        return job is not None and not session.job_enqueueable(job)
    queue = session.queues[limit.queue]
    if session.overused(queue):
        return True
    return all(session.allocatable(queue, session.plan(shape), limit.count) < limit.count for shape in limit.shapes)


def _limit_of_entry(session: Session, job: Job) -> Limit | None:
    """What keeps a job from being let in; None where that is asked after others may have gone, or plugins look at more of it."""
    is_asked_first = session.configuration.actions[:1] == ("enqueue",) and session.evicts is not None
    minimum = job.facts.group.spec.min_resources
    if not is_asked_first or not session.lets_in_alike or minimum is None:
        return None
    queue = session.queues[job.facts.queue]
    return Limit(queue.name, queue.facts.record, namespace=job.facts.namespace, minimum=frozenset(minimum.items()))


def _limit_of_pods(session: Session, job: Job, waiting: Sequence[Task], count: int) -> Limit | None:
    """What keeps pods of a job from being placed, whatever nodes have; None if nothing does, or others could go for it.

    Pods that ask for nothing are not kept from it, and what is kept for pods that had the queue's gate depends on all of these.
    """
    queue = session.queues[job.facts.queue]
    if session.evicts is not Evicts.NOBODY or not (job.is_limited or session.overused(queue)):
        return None
    if any(task.facts.shape.is_best_effort or task.facts.uses_queue_gate for task in waiting):
        return None
    return Limit(queue.name, queue.facts.record, frozenset(task.facts.shape for task in waiting), count)


def _lacking(session: Session, job: Job, waiting: Sequence[Task]) -> int:
    """How many of `waiting` must get a place together, as any of them may be kept alone where no plugin asks for a minimum."""
    if session.job_ready(job) or session.job_pipelined(job) or len({task.facts.shape for task in waiting}) > 1:
        return 1
    return max(1, job.tally.missing(job.facts.min_available, job.facts.role_minimum))


def _is_wary(session: Session, job: Job, waiting: Sequence[Task]) -> bool:
    """Whether more than the room of a node that could take one of `waiting` may help the job.

    A part of the network is chosen by the sum of its room, which may grow on nodes that take none of them.
    """
    if job.is_limited or not job.fit_errors or is_constrained(session, job):
        return True
    if any(task.facts.shape.has_claims for task in waiting):
        return True
    return any(session.depends_on_others(task, session.plan(task.facts.shape)) for task in _unlike(waiting))


def _unlike(tasks: Iterable[Task]) -> Iterable[Task]:
    """One of `tasks` for each shape and set of labels: by these other pods tell them apart."""
    found = {(task.facts.shape, frozenset(task.facts.pod.metadata.labels.items())): task for task in tasks}
    return found.values()
