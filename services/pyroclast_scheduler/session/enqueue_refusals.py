"""Causes for which a job is not enqueued, with numbers: the request, the limits of cluster or queue, and the jobs ahead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from pyroclast.api import waiting_reasons as pending
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast_scheduler.model import quotas
from pyroclast_scheduler.model.causes import Cause, Shortage
from pyroclast_scheduler.model.dimensions import Amounts
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Floats
from pyroclast_scheduler.model.triggers import QueueUse
from pyroclast_scheduler.model.values import listed, number, spelled
from pyroclast_scheduler.session import waiting_order
from pyroclast_scheduler.session.session import Session

_MOST = 4  # resources that a cause lists, the first ones that are short


def by_cluster(session: Session, job: Job, short: Sequence[int], *, used: Floats, promised: Floats) -> Cause:
    """Return the cause that the cluster lacks room in the dimensions `short`. `used`, `promised`: vectors.

    If overcommitment is allowed, a gang may request more than the cluster has and still be enqueued. Then no node is feasible for
    it.
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
    session: Session, job: Job, queue: str, short: Sequence[int], *, limit: Floats, allocated: Floats, promised: Floats
) -> Cause:
    """Return the cause that `queue`, the queue of the job or an ancestor, lacks room in the dimensions `short`.

    `limit`: the largest amounts that the queue may use.
    """
    cause = _by_queue(session, job, queue, short, limit=limit, allocated=allocated, promised=promised)
    return replace(cause, retry_when=frozenset({QueueUse(queue)}))


def _by_queue(
    session: Session, job: Job, queue: str, short: Sequence[int], *, limit: Floats, allocated: Floats, promised: Floats
) -> Cause:
    asked = job.facts.min_resources
    assert asked is not None  # noqa: S101 - a job without minimum resources is enqueued
    named, total = session.dimensions.named(short, asked), session.total
    cap = quotas.capability(session.queues[queue].facts.capability, session.dimensions)
    name, row = named[0]
    most, has, coming = float(limit[row]), float(allocated[row]), float(promised[row])
    others = _guaranteed(session, queue, name)
    is_capped = np.isfinite(cap[row])
    wanted = asked[name] + has + coming
    amounts = _Amounts(asked, named, allocated.copy(), np.maximum(promised, 0), np.minimum(limit, np.minimum(cap, total)))
    sentence = f"queue resource quota insufficient: {', '.join(f'insufficient {each}' for each, _ in named)}" if is_capped else ""
    asks = f"it asks for {_listed(asked, named)}"
    if is_capped and asked[name] > cap[row]:
        text = f"never: {asks}; queue {queue} may have at most {spelled(name, cap[row])} (its capability)"
        return Cause(PendingReason.ABOVE_QUEUE_LIMIT, lambda: text, sentence, amounts.shortages)
    if asked[name] > total[row]:
        return _above_cluster(session, asked, named[:1], sentence)
    if others and wanted <= min(float(cap[row]), float(total[row])):
        listed_others = ", ".join(f"{other} {spelled(name, amount)}" for other, amount in others)
        kept = f"of the cluster's {spelled(name, total[row])} other queues are guaranteed: {listed_others}"
        left = f"this leaves queue {queue} {spelled(name, most)}, of which it has {number(name, has)}"
        text = f"not now: {asks}; {kept}; {left}"
        return Cause(PendingReason.HELD_BY_GUARANTEE, lambda: text + before(session, job), sentence, amounts.shortages)
    behind = partial(_behind, session, job, amounts, f"queue {queue}", sentence)
    rest = f"it has {number(name, has)} and {number(name, max(coming, 0))} are promised to gangs let in before"
    if is_capped:
        text = f"not now: {asks}; queue {queue} may have at most {spelled(name, min(most, float(cap[row])))}, {rest}"
        reason = PendingReason.QUEUE_FULL
        return Cause(reason, lambda: text + before(session, job), sentence, amounts.shortages, behind)
    text = f"not now: {asks}; queue {queue} may have at most {spelled(name, most)} of the cluster, {rest}"
    return Cause(PendingReason.CLUSTER_FULL, lambda: text + before(session, job), sentence, amounts.shortages, behind)


def closed(session: Session, queue: str) -> Cause:
    """Return the cause that the queue is closed."""
    text = pending.closed_queue(queue, session.queues[queue].facts.record.status.state)
    return Cause(PendingReason.QUEUE_CLOSED, lambda: text, retry_when=frozenset())


def before(session: Session, job: Job) -> str:
    """Return a clause for the end of a message: the jobs ahead of `job` in its queue; empty if there are none.

    A job of another namespace is not named, since a reader of the message may have no right to know that job.
    """
    ahead, first = waiting_order.before(session, job)
    if first is None:
        return ""
    more = f" and {ahead - 1} more" if ahead > 1 else ""
    return f"; before it in the queue: {named_for(job, first)} (priority {first.priority}){more}"


def named_for(job: Job, other: JobFacts) -> str:
    """Return the key of `other` if readers of `job` may know it, else a neutral phrase."""
    return other.key if other.namespace == job.facts.namespace else "a gang of another namespace"


@dataclass(frozen=True, slots=True)
class _Amounts:
    """The requested and the available amounts of a job in the dimensions that are short.

    `named`: name and row of each dimension.
    """

    asked: Amounts
    named: Sequence[tuple[str, int]]
    used: Floats
    promised: Floats
    limit: Floats

    def shortages(self) -> list[Shortage]:
        return [
            Shortage(
                name,
                number(name, self.asked[name]),
                used=number(name, self.used[row]),
                promised=number(name, self.promised[row]),
                limit=number(name, self.limit[row]) if np.isfinite(self.limit[row]) else None,
            )
            for name, row in self.named[:_MOST]
        ]


def _behind(session: Session, job: Job, amounts: _Amounts, place: str, sentence: str) -> Cause | None:
    """Return the cause that only the order of the queue keeps `job` waiting: it would fit beside the allocated jobs.

    Return None if the job would not fit, or if only gangs behind it or in other queues keep it from being enqueued.
    """
    rows, asked = [row for _, row in amounts.named], session.dimensions.sums(amounts.asked)
    if (amounts.used + asked > amounts.limit)[rows].any():
        return None
    first, kept = waiting_order.let_in_before(session, job)
    if first is None or (amounts.used + amounts.promised - kept + asked > amounts.limit)[rows].any():
        return None
    name, row = amounts.named[0]

    def explain() -> str:
        has, most = number(name, amounts.used[row]), spelled(name, amounts.limit[row])
        text = f"not now: it asks for {_listed(amounts.asked, amounts.named)} and would fit: {place} has {has} of {most}"
        who = f"{named_for(job, first)} (priority {first.priority})"
        return f"{text}; but {spelled(name, kept[row])} are promised to gangs before it in the queue, the first: {who}"

    return Cause(PendingReason.BEHIND_ANOTHER, explain, sentence, amounts.shortages)


def _guaranteed(session: Session, queue: str, name: str) -> list[tuple[str, float]]:
    """Return the other queues that have a guarantee of resource `name`, with the amounts."""
    guarantees = [(other.name, float(other.facts.guarantee.get(name, 0))) for other in session.queues.values()]
    return [(other, amount) for other, amount in sorted(guarantees) if amount > 0 and other not in {queue, "root"}]


def _above_cluster(session: Session, asked: Amounts, named: Sequence[tuple[str, int]], sentence: str) -> Cause:
    total = session.total.copy()

    def explain() -> str:
        has = ", ".join(spelled(name, total[row]) if total[row] else f"no {name}" for name, row in named)
        return f"never: it asks for {_listed(asked, named)} in all, and the cluster has {has}"

    def short() -> list[Shortage]:
        return [Shortage(name, number(name, asked[name]), limit=number(name, total[row])) for name, row in named[:_MOST]]

    return Cause(PendingReason.ABOVE_CLUSTER, explain, sentence, short)


def _listed(asked: Amounts, named: Sequence[tuple[str, int]]) -> str:
    return listed((name, asked[name]) for name, _ in named)
