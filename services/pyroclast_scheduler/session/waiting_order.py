"""Who waits before whom in a queue, and who was let in before: for texts, at the end of a session, when ranks change no more.

Jobs at rest stand where the sessions before had them, as the port `waiting` knows; only those of this session are ranked anew.
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

__all__ = ["WaitingOrder", "before", "let_in_before"]

_NOT_PLACED = frozenset({PodGroupPhase.PENDING, PodGroupPhase.INQUEUE})


@dataclass(slots=True)
class WaitingOrder:
    """One queue in one session. `ranked`: jobs that were ranked in it, in order; `known`: where these stood before, sorted.

    `first_at_rest`: the first of the others. `let_in`: those without a place that were let in, in order; `kept`: what the first n
    of them are promised.
    """

    ranked: list[tuple[tuple[Rank, ...], JobFacts]]
    known: list[int]
    first_at_rest: JobFacts | None
    let_in: list[tuple[tuple[Rank, ...], JobFacts]]
    kept: Floats


def before(session: Session, job: Job) -> tuple[int, JobFacts | None]:
    """How many of its queue wait before `job`, and the first of them."""
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
    """The first gang of its queue before `job` that was let in and has no place yet, and what all of those are promised."""
    order = session.once(_orders)[job.facts.queue]
    ahead = bisect_left(order.let_in, session.job_key(job), key=itemgetter(0))
    return (order.let_in[0][1] if ahead else None), order.kept[ahead]


def _orders(session: Session) -> dict[str, WaitingOrder]:
    """By queue."""
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
    """The jobs of this session; all there are where nobody knows where the others stand."""
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
    """By queue, gangs at rest without a place that were let in; looked for only where a queue has promised anything."""
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
    """Gangs that were let in: of this session, and those at rest."""
    own = [
        (rank, facts) for rank, facts in order.ranked if (job := session.job(facts.key)) and job.phase is PodGroupPhase.INQUEUE
    ]
    order.let_in = sorted([*own, *at_rest], key=itemgetter(0))
    order.kept = np.zeros((len(order.let_in) + 1, len(session.dimensions)))
    for at, (_, facts) in enumerate(order.let_in):
        job = session.job(facts.key)
        owed = 0.0 if job is None else demand.reserved(job, session.dimensions, less_allocated=True)
        order.kept[at + 1] = order.kept[at] + owed
