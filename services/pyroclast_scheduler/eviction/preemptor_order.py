"""The order of preemptors: the jobs for which an action may evict pods, queue by queue and job by job."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial

from pyroclast.lifecycle.seats.contract import is_seat
from pyroclast_scheduler.eviction.part_room import room_for_part
from pyroclast_scheduler.eviction.victims import loss_rank
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.queues import Queue
from pyroclast_scheduler.model.subjobs import SubJob
from pyroclast_scheduler.model.tasks import Task, TaskStatus
from pyroclast_scheduler.session.domains import Room, in_best_domain
from pyroclast_scheduler.session.selection import Heap
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.session.statement import Statement


def starving(session: Session, *, passes: Callable[[Job], bool] = lambda _: True) -> list[tuple[Queue, list[Job]]]:
    """Return the queues in order, each with its starving jobs that pass. Seats have no pods yet that could be nominated."""
    found: dict[str, list[Job]] = {}
    for job in session.jobs.values():
        if job.is_pending or job.facts.group.spec.never_preempts or not passes(job):
            continue
        if session.job_invalid(job) is not None or not (session.job_starving(job) or _may_grow(session, job)):
            continue
        if not any(is_seat(task.uid) for task in job.tasks):
            found.setdefault(job.facts.queue, []).append(job)
    return [(queue, found[queue.name]) for queue in sorted((session.queues[name] for name in found), key=session.queue_key)]


def _may_grow(session: Session, job: Job) -> bool:
    """Whether pods may be evicted for members beyond the minimum: for groups of Kubernetes, unlike for those of Volcano."""
    return not job.facts.group.keeps_phase and session.job_pipelined(job) and any(session.waiting_in_order(job.tasks))


def make_room(session: Session, job: Job, take: Callable[[Statement, Task], None]) -> Statement | None:
    """Call `take` for pending tasks until `job` is pipelined. Return what was done, applied; None, all undone, if it is not.

    For a group of Kubernetes, `take` is called for the pods beyond the minimum too.
    """
    tree = job.facts.group.spec.tree

    def make(sub_job: SubJob) -> Statement | None:
        own = _taken(session, sub_job.tasks, take, lambda: not sub_job.is_pipelined)
        if sub_job.is_pipelined:
            return own
        own.discard()
        return None

    grows = not job.facts.group.keeps_phase
    if tree is None:
        statement = _taken(session, job.tasks, take, lambda: grows or session.job_starving(job))
    elif session.job_pipelined(job):
        started = (task for sub_job in job.sub_jobs.values() if sub_job.is_pipelined for task in sub_job.tasks)
        statement = _taken(session, started, take, lambda: True)
    else:
        statement = room_for_part(session, job, tree, make) or session.statement()
    if not session.job_pipelined(job):
        statement.discard()
    return statement if statement.moves else None


def _taken(
    session: Session, tasks: Iterable[Task], take: Callable[[Statement, Task], None], is_lacking: Callable[[], bool]
) -> Statement:
    """Call `take` for the pending tasks of `tasks` in order while `is_lacking` is true."""
    statement = session.statement()
    waiting = deque(session.waiting_in_order(tasks))
    while waiting and is_lacking():
        session.reorder(waiting)
        take(statement, waiting.popleft())
    return statement


def take_turns(session: Session, jobs: Iterable[Job], find: Callable[[Job], Room | None]) -> list[Job]:
    """Make room for each of `jobs` in order, see `try_in_order`, in the topology domain in which the loss is smallest.

    `find` returns room for a job in the domain that is chosen in the session, applied and not committed.
    """

    def makes_room(job: Job) -> bool:
        room = in_best_domain(session, job, partial(find, job), lambda room: loss_rank(_going(room), session.ports.now))
        if room is not None:
            room.commit()
        return room is not None

    return try_in_order(session, jobs, makes_room)


def _going(room: Room) -> Iterable[Task]:
    return (task for move in room.moves if move.status is TaskStatus.RELEASING for task in move.tasks)


def try_in_order(session: Session, jobs: Iterable[Job], makes_room: Callable[[Job], bool]) -> list[Job]:
    """Call `makes_room` for each of `jobs` and, after a success, for equivalent ones, which a failure ends. Return all jobs."""
    line: Heap[Job] = Heap(session.job_key)
    found: list[Job] = []
    hopeless: set[bytes | None] = set()

    def add(job: Job) -> None:
        found.append(job)
        line.push(job)

    for job in jobs:
        add(job)
    while line:
        job = line.pop()
        kind = session.kind(job)
        if kind is not None and kind in hopeless:
            continue
        if not makes_room(job):
            hopeless.add(kind)
            continue
        hopeless.clear()
        next_job = session.equivalents.next_after(job)
        if next_job is not None:
            session.equivalents.unexplained.add(next_job.facts.key)
            add(next_job)
    return found
