"""Causes for which a job is not enqueued, with numbers: the request, the limits of cluster or queue, and the jobs ahead.

Unschedulable jobs have the positions of earlier sessions, from the port `waiting`. Only jobs of this session are ranked anew.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter

import numpy as np

from pyroclast.api import waiting_reasons as pending
from pyroclast.api.enums import PodGroupPhase
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast_scheduler.model import demand
from pyroclast_scheduler.model.causes import Cause, Shortage
from pyroclast_scheduler.model.dimensions import Amounts, Ints
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Floats
from pyroclast_scheduler.model.triggers import QueueUse
from pyroclast_scheduler.model.values import listed, number, spelled
from pyroclast_scheduler.session.extension_points import Rank
from pyroclast_scheduler.session.plugin_session import PluginSession

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


def jobs_before(session: PluginSession, job: Job) -> tuple[int, JobFacts | None]:
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


def let_in_before(session: PluginSession, job: Job) -> tuple[JobFacts | None, Floats]:
    """Return the first enqueued gang ahead of `job` in its queue that is not allocated, and the sum reserved for all of them."""
    order = session.once(_orders)[job.facts.queue]
    ahead = bisect_left(order.let_in, session.job_key(job), key=itemgetter(0))
    return (order.let_in[0][1] if ahead else None), order.kept[ahead]


def _orders(session: PluginSession) -> dict[str, WaitingOrder]:
    """Return the order of each queue. Jobs beside those of this session are ranked only if their positions are unknown."""
    found = {name: WaitingOrder([], [], None, [], np.zeros((1, len(session.dimensions)))) for name in session.queues}
    for job in (session.jobs if session.ports.waiting is not None else session.all_jobs()).values():
        if job.facts.phase in _NOT_PLACED and job.facts.tally.ready < job.facts.min_available:
            found[job.facts.queue].ranked.append((session.job_key(job), job.facts))
    at_rest = _let_in_at_rest(session)
    for name, order in found.items():
        order.ranked.sort(key=itemgetter(0))
        _place_rest(session, name, order)
        _add_let_in(session, order, at_rest.get(name, []))
    return found


def _place_rest(session: PluginSession, queue: str, order: WaitingOrder) -> None:
    waiting = session.ports.waiting
    if waiting is None:
        return
    ranked = {facts.key for _, facts in order.ranked} | session.jobs.keys()
    places = (waiting.place(queue, key) for key in ranked)
    order.known = sorted(place for place in places if place is not None)
    first = next((key for key in waiting.order_of(queue) if key not in ranked), None)
    order.first_at_rest = None if first is None else session.snapshot.all_jobs.get(first)


def _let_in_at_rest(session: PluginSession) -> dict[str, list[tuple[tuple[Rank, ...], JobFacts]]]:
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


def _add_let_in(session: PluginSession, order: WaitingOrder, at_rest: list[tuple[tuple[Rank, ...], JobFacts]]) -> None:
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


_MOST = 4  # resources that a cause lists, the first ones that are short


def by_cluster(session: PluginSession, job: Job, short: Sequence[int], *, used: Floats, promised: Floats) -> Cause:
    """Return the cause that the cluster lacks room in the dimensions `short`. `used`, `promised`: vectors.

    If overcommitment is allowed, a gang that requests more than the cluster has could be let in, but no node is feasible for it.
    """
    asked = job.facts.min_resources
    assert asked is not None  # noqa: S101 - a job without minimum resources is enqueued
    named, total = session.dimensions.named(short, asked), session.total.copy()
    sentence = f"resource in cluster is overused: {', '.join(f'overused {name}' for name, _ in named)}"
    never = [(name, row) for name, row in named if asked[name] > total[row]]
    if never:
        return _above_cluster(session, asked, never, sentence)
    amounts = _Amounts(asked, named, used.copy(), promised.copy(), total)

    def explain() -> str:
        name, row = named[0]
        has, will = number(name, amounts.used[row]), number(name, amounts.promised[row])
        whole = f"of the cluster's {spelled(name, total[row])} {has} are taken and {will} promised to gangs let in before"
        return f"not now: it asks for {_listed(asked, named)}; {whole}{before(session, job)}"

    behind = partial(_behind, session, job, amounts, "the cluster", sentence)
    return Cause(PendingReason.CLUSTER_FULL, explain, sentence, amounts.shortages, behind)


def by_queue(
    session: PluginSession, job: Job, queue: str, short: Sequence[int], *, limit: Floats, allocated: Floats, promised: Floats
) -> Cause:
    """Return the cause that `queue`, of the job or above, may use only `limit` and lacks room in the dimensions `short`."""
    asked = job.facts.min_resources
    assert asked is not None  # noqa: S101 - a job without minimum resources is enqueued
    named, total = session.dimensions.named(short, asked), session.total
    cap = demand.capability(session.queues[queue].facts.capability, session.dimensions)
    name, row = named[0]
    most, has, coming = float(limit[row]), float(allocated[row]), float(promised[row])
    others = _guaranteed(session, queue, name)
    is_capped = np.isfinite(cap[row])
    wanted = asked[name] + has + coming
    amounts = _Amounts(asked, named, allocated.copy(), np.maximum(promised, 0), np.minimum(limit, np.minimum(cap, total)))
    triggers = frozenset({QueueUse(queue)})
    sentence = f"queue resource quota insufficient: {', '.join(f'insufficient {each}' for each, _ in named)}" if is_capped else ""
    cause = partial(Cause, sentence=sentence, short=amounts.shortages, retry_when=triggers)
    asks = f"it asks for {_listed(asked, named)}"
    if is_capped and asked[name] > cap[row]:
        text = f"never: {asks}; queue {queue} may have at most {spelled(name, cap[row])} (its capability)"
        return cause(PendingReason.ABOVE_QUEUE_LIMIT, lambda: text)
    if asked[name] > total[row]:
        return replace(_above_cluster(session, asked, named[:1], sentence), retry_when=triggers)
    if others and wanted <= min(float(cap[row]), float(total[row])):
        listed_others = ", ".join(f"{other} {spelled(name, amount)}" for other, amount in others)
        kept = f"of the cluster's {spelled(name, total[row])} other queues are guaranteed: {listed_others}"
        left = f"this leaves queue {queue} {spelled(name, most)}, of which it has {number(name, has)}"
        text = f"not now: {asks}; {kept}; {left}"
        return cause(PendingReason.HELD_BY_GUARANTEE, lambda: text + before(session, job))
    behind = partial(_behind, session, job, amounts, f"queue {queue}", sentence)
    rest = f"it has {number(name, has)} and {number(name, max(coming, 0))} are promised to gangs let in before"
    reason = PendingReason.QUEUE_FULL if is_capped else PendingReason.CLUSTER_FULL
    bound = spelled(name, min(most, float(cap[row]))) if is_capped else f"{spelled(name, most)} of the cluster"
    text = f"not now: {asks}; queue {queue} may have at most {bound}, {rest}"
    return cause(reason, lambda: text + before(session, job), instead=behind)


def closed(session: PluginSession, queue: str) -> Cause:
    """Return the cause that the queue is closed."""
    text = pending.closed_queue(queue, session.queues[queue].facts.record.status.state)
    return Cause(PendingReason.QUEUE_CLOSED, lambda: text, retry_when=frozenset())


def before(session: PluginSession, job: Job) -> str:
    """Return a clause for the end of a message: the jobs ahead of `job` in its queue; empty if there are none."""
    ahead, first = jobs_before(session, job)
    if first is None:
        return ""
    more = f" and {ahead - 1} more" if ahead > 1 else ""
    return f"; before it in the queue: {named_for(job, first)} (priority {first.priority}){more}"


def named_for(job: Job, other: JobFacts) -> str:
    """Return the key of `other` if readers of `job` may know it, else a neutral phrase: other namespaces may be secret."""
    return other.key if other.namespace == job.facts.namespace else "a gang of another namespace"


def shortages(named: Sequence[tuple[str, int]], asked: Amounts, **amounts: Ints | Floats) -> list[Shortage]:
    """Return the first requested resources beside `amounts`: vectors by the field of `Shortage`, where they are finite."""
    found: list[Shortage] = []
    for name, row in named[:_MOST]:
        finite = {key: number(name, each[row]) for key, each in amounts.items() if each[row] < np.inf}
        found.append(Shortage(name, number(name, asked[name]), **finite))
    return found


@dataclass(frozen=True, slots=True)
class _Amounts:
    """The requested and the available amounts of a job in the dimensions that are short. `named`: their names and rows."""

    asked: Amounts
    named: Sequence[tuple[str, int]]
    used: Floats
    promised: Floats
    limit: Floats

    def shortages(self) -> list[Shortage]:
        return shortages(self.named, self.asked, used=self.used, promised=self.promised, limit=self.limit)


def _behind(session: PluginSession, job: Job, amounts: _Amounts, place: str, sentence: str) -> Cause | None:
    """Return the cause that only the order of the queue keeps `job` waiting: it would fit beside the allocated jobs.

    Return None if it would not, or if gangs behind it or in other queues keep it from being enqueued.
    """
    rows, asked = [row for _, row in amounts.named], session.dimensions.sums(amounts.asked)
    if (amounts.used + asked > amounts.limit)[rows].any():
        return None
    first, kept = let_in_before(session, job)
    if first is None or (amounts.used + amounts.promised - kept + asked > amounts.limit)[rows].any():
        return None
    name, row = amounts.named[0]

    def explain() -> str:
        has, most = number(name, amounts.used[row]), spelled(name, amounts.limit[row])
        text = f"not now: it asks for {_listed(amounts.asked, amounts.named)} and would fit: {place} has {has} of {most}"
        who = f"{named_for(job, first)} (priority {first.priority})"
        return f"{text}; but {spelled(name, kept[row])} are promised to gangs before it in the queue, the first: {who}"

    return Cause(PendingReason.BEHIND_ANOTHER, explain, sentence, amounts.shortages)


def _guaranteed(session: PluginSession, queue: str, name: str) -> list[tuple[str, float]]:
    """Return the other queues that have a guarantee of resource `name`, with the amounts."""
    guarantees = [(other.name, float(other.facts.guarantee.get(name, 0))) for other in session.queues.values()]
    return [(other, amount) for other, amount in sorted(guarantees) if amount > 0 and other not in {queue, "root"}]


def _above_cluster(session: PluginSession, asked: Amounts, named: Sequence[tuple[str, int]], sentence: str) -> Cause:
    total = session.total.copy()

    def explain() -> str:
        has = ", ".join(spelled(name, total[row]) if total[row] else f"no {name}" for name, row in named)
        return f"never: it asks for {_listed(asked, named)} in all, and the cluster has {has}"

    return Cause(PendingReason.ABOVE_CLUSTER, explain, sentence, partial(shortages, named, asked, limit=total))


def _listed(asked: Amounts, named: Sequence[tuple[str, int]]) -> str:
    return listed((name, asked[name]) for name, _ in named)
