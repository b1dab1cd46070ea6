"""The order of waiting jobs in a queue, and the enqueued jobs ahead of a job, for messages at the end of a session.

Unschedulable jobs have the positions of earlier sessions, from the port `waiting`. Only jobs of this session are ranked anew.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from pyroclast.api.enums import PodGroupPhase
from pyroclast_scheduler.model import demand
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Floats
from pyroclast_scheduler.session.extension_points import Rank
from pyroclast_scheduler.session.session import Session

_NOT_PLACED = frozenset({PodGroupPhase.PENDING, PodGroupPhase.INQUEUE})


@dataclass(slots=True)
class WaitingOrder:
    """The waiting jobs of one queue in one session.

    Attributes:
        ranked: the jobs that were ranked in this session, in order.
        known: the earlier positions of these jobs, sorted.
        first_at_rest: the first of the other jobs; None if there is none.
        let_in: the enqueued jobs that are not allocated, in order.
        kept: row n is the sum of the amounts that are reserved for the first n jobs of `let_in`.
    """

    ranked: list[tuple[tuple[Rank, ...], JobFacts]]
    known: list[int]
    first_at_rest: JobFacts | None
    let_in: list[tuple[tuple[Rank, ...], JobFacts]]
    kept: Floats


def before(session: Session, job: Job) -> tuple[int, JobFacts | None]:
    """Return how many jobs of its queue wait ahead of `job`, and the first of them."""
    order, own = session.once(_orders)[job.facts.queue], session.job_key(job)
    ahead = bisect_left(order.ranked, own, key=itemgetter(0))
    first = order.ranked[0] if ahead else None
    waiting = session.ports.waiting
    if waiting is None:
        return ahead, None if first is None else first[1]
    at = waiting.position(job.facts.queue, own, job.facts.key)
    rest = at - bisect_left(order.known, at)
    at_rest = order.first_at_rest if rest else None
    if first is None or (at_rest is not None and waiting.rank(at_rest.key) < first[0]):
        return ahead + rest, at_rest
    return ahead + rest, first[1]


def let_in_before(session: Session, job: Job) -> tuple[JobFacts | None, Floats]:
    """Return the first enqueued gang ahead of `job` in its queue that is not allocated.

    Also return the sum of the amounts that are reserved for all such gangs ahead of `job`.
    """
    order = session.once(_orders)[job.facts.queue]
    ahead = bisect_left(order.let_in, session.job_key(job), key=itemgetter(0))
    return (order.let_in[0][1] if ahead else None), order.kept[ahead]


def _orders(session: Session) -> dict[str, WaitingOrder]:
    """Return the order of each queue."""
    found = {name: WaitingOrder([], [], None, [], np.zeros((1, len(session.dimensions)))) for name in session.queues}
    for job in _ranked(session):
        if _waits(job):
            found[job.facts.queue].ranked.append((session.job_key(job), job.facts))
    at_rest = _let_in_at_rest(session)
    for name, order in found.items():
        order.ranked.sort(key=itemgetter(0))
        _place_rest(session, name, order)
        _add_let_in(session, order, at_rest.get(name, []))
    return found


def _ranked(session: Session) -> Iterable[Job]:
    """Return the jobs to be ranked: those of this session, or all jobs if the positions of the others are unknown."""
    return session.jobs.values() if session.ports.waiting is not None else session.all_jobs().values()


def _waits(job: Job) -> bool:
    return job.facts.phase in _NOT_PLACED and job.facts.tally.ready < job.facts.min_available


def _place_rest(session: Session, queue: str, order: WaitingOrder) -> None:
    waiting = session.ports.waiting
    if waiting is None:
        return
    ranked = {facts.key for _, facts in order.ranked} | session.jobs.keys()
    places = (waiting.place(queue, key) for key in ranked)
    order.known = sorted(place for place in places if place is not None)
    first = next((key for key in waiting.order_of(queue) if key not in ranked), None)
    order.first_at_rest = None if first is None else session.snapshot.all_jobs.get(first)


def _let_in_at_rest(session: Session) -> dict[str, list[tuple[tuple[Rank, ...], JobFacts]]]:
    """Return the unschedulable enqueued gangs that are not allocated, by queue; empty if no queue reserves any amounts."""
    waiting = session.ports.waiting
    found: dict[str, list[tuple[tuple[Rank, ...], JobFacts]]] = {}
    if waiting is None or not any(sums.inqueue.any() for sums in session.queue_sums.values()):
        return found
    for facts in session.snapshot.all_jobs.values():
        is_let_in = facts.group.status.phase is PodGroupPhase.INQUEUE and facts.key not in session.jobs
        if is_let_in and waiting.place(facts.queue, facts.key) is not None:
            found.setdefault(facts.queue, []).append((waiting.rank(facts.key), facts))
    return found


def _add_let_in(session: Session, order: WaitingOrder, at_rest: list[tuple[tuple[Rank, ...], JobFacts]]) -> None:
    """Set the enqueued gangs of `order`: those of this session and the unschedulable ones."""
    own = [
        (rank, facts) for rank, facts in order.ranked if (job := session.job(facts.key)) and job.phase is PodGroupPhase.INQUEUE
    ]
    order.let_in = sorted([*own, *at_rest], key=itemgetter(0))
    order.kept = np.zeros((len(order.let_in) + 1, len(session.dimensions)))
    for at, (_, facts) in enumerate(order.let_in):
        job = session.job(facts.key)
        owed = 0.0 if job is None else demand.reserved(job, session.dimensions, less_allocated=True)
        order.kept[at + 1] = order.kept[at] + owed
