"""Plugin proportion: each queue deserves a share of the cluster by weight, at most its request."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np

from pyroclast_scheduler.eviction.progress import QueueLack
from pyroclast_scheduler.model import demand
from pyroclast_scheduler.model.demand import past_share, weighed
from pyroclast_scheduler.model.dimensions import PODS, Ints
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools, Floats
from pyroclast_scheduler.model.queues import Queue
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.model.triggers import QueueUse
from pyroclast_scheduler.placement.plans import PlacementPlan
from pyroclast_scheduler.session import enqueue_refusals
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.extension_points import Extensions, Vote
from pyroclast_scheduler.session.plugin_session import PluginSession
from pyroclast_scheduler.session.statement import Move


class Proportion:
    """Argument `pastUsageWeight` (0): how strongly the past usage of queues changes their weights."""

    def __init__(self, arguments: Arguments) -> None:
        self._past_weight = arguments.number("pastUsageWeight", 0.0, least=0, most=100)

    def open(self, session: PluginSession) -> Extensions:
        """Return the extensions of this plugin for one session."""
        queues = _Queues(session, self._past_weight)
        return Extensions(
            queue_order=lambda queue: (-queue.facts.priority, queues.share(queue.name)),
            overused=queues.overused,
            allocatable=queues.allocatable,
            quota_retry_when=lambda _job, _tasks: (QueueUse(),),  # the deserved amounts depend on the requests of all queues
            preemptive=queues.preemptive,
            lowers_lack=queues.lowers_lack,
            reclaimable=queues.reclaimable,
            spares_reclaimed=lambda job, _: not queues.exceeds_deserved(job.facts.queue),
            job_enqueueable=queues.enqueueable,
            is_enqueue_told=True,
            moved=queues.moved,
            close=queues.measure,
        )


_NOISE: Final = 0.01
"""Millicores, bytes or pods; what is nearer to a whole number differs from it by rounding errors only."""


def water_fill(total: Floats, weights: Floats, requests: Floats, limits: Floats, guarantees: Floats) -> Floats:
    """Return the deserved amounts, (queues, dimensions): by weight, at most request and limit, at least the guarantee.

    The share that a queue does not need is divided among the queues that request more, until nothing is left or all requests are
    met.
    """
    bounds = np.minimum(requests, limits)
    if not weights.any():
        return np.zeros_like(bounds)
    deserved: Floats = np.maximum(np.minimum(total * (weights / weights.sum())[:, None], bounds), guarantees)
    for _ in weights:  # each round distributes all of the rest, or satisfies at least one queue
        left = np.maximum(total - deserved.sum(axis=0), 0)
        sharing = weights[:, None] * (bounds - deserved >= demand.EPSILON)
        whole = sharing.sum(axis=0)
        is_wanted = (left >= demand.EPSILON) & (whole > 0)
        if not is_wanted.any() or (np.delete(left, PODS) < demand.EPSILON).all():
            break
        more = left * np.divide(sharing, whole, out=np.zeros_like(sharing), where=is_wanted)
        deserved = np.maximum(np.minimum(deserved + more, bounds), deserved)
    whole = np.rint(deserved)
    return np.where(np.abs(deserved - whole) < _NOISE, whole, deserved)


class _Queues:
    """The sums of the queues that have jobs."""

    def __init__(self, session: PluginSession, past_weight: float) -> None:
        self._session = session
        self._rows = {name: row for row, name in enumerate(session.queue_sums)}
        sums = list(session.queue_sums.values())
        shape = (len(sums), len(session.dimensions))
        self._allocated = np.array([each.allocated for each in sums]).reshape(shape)
        self._inqueue = np.array([session.promises.by_queue[name] for name in self._rows]).reshape(shape)
        session.promises.listen(self.promised)
        self._elastic = np.array([each.elastic for each in sums]).reshape(shape)
        pending = np.array([each.pending for each in sums]).reshape(shape)
        total = session.total
        queues = [session.queues[name] for name in self._rows]
        guarantees = np.array([demand.vector(queue.facts.guarantee, session.dimensions) for queue in queues]).reshape(shape)
        limits = demand.limits(session.queues.values(), queues, total, session.dimensions)
        self._limits: Floats = limits
        self._most_pods = demand.most_pods(queues, session.dimensions)
        weights = np.array([queue.facts.weight for queue in queues], dtype=np.float64)
        self._weights = weights
        if past_weight:
            past = [past_share(queue.facts.past.held, total, session.dimensions) for queue in queues]
            weights = weighed(weights, np.array(past, dtype=np.float64), past_weight)
        requests = (self._allocated + pending).astype(np.float64)
        self._requests = requests
        self._divide = partial(water_fill, total.astype(np.float64), weights, limits=limits, guarantees=guarantees)
        self._deserved = self._divide(requests=requests)
        self._with_promised: Floats | None = None
        paths = {name: (row,) for name, row in self._rows.items()}
        self._lack = QueueLack(session, self._deserved, lambda name: paths.get(name, ()))

    def measure(self) -> None:
        found, rows = self._session.report.measures, self._rows
        kinds = {
            "allocated": self._allocated,
            "request": self._requests,
            "deserved": self._deserved,
            "inqueue": self._inqueue,
        }
        found.amounts.update({kind: {name: table[row] for name, row in rows.items()} for kind, table in kinds.items()})
        over: Bools = np.all(self._deserved <= self._allocated + demand.EPSILON, axis=1)
        found.numbers["share"] = {name: self.share(name) for name in rows}
        found.numbers["weight"] = {name: float(self._weights[row]) for name, row in rows.items()}
        found.numbers["overused"] = {name: float(over[row]) for name, row in rows.items()}

    def share(self, name: str) -> float:
        row = self._rows.get(name)
        return 0.0 if row is None else demand.share(self._allocated[row], self._deserved[row])

    def overused(self, queue: Queue, extra: Ints) -> bool:
        row = self._rows[queue.name]
        return bool((self._deserved[row] < self._allocated[row] + extra + demand.EPSILON).all())

    def allocatable(self, queue: Queue, plan: PlacementPlan, count: int) -> int:
        row = self._rows[queue.name]
        if not queue.facts.is_open:
            return 0
        copies = self._copies(row, self._deserved[row], plan.request)
        if copies >= count or not self._inqueue[row].any():
            return min(count, copies)
        return min(count, self._copies(row, self._deserved_later(row), plan.request))

    def _copies(self, row: int, deserved: Floats, request: Ints) -> int:
        return demand.copies_within(deserved, self._allocated[row], request, most_pods=self._most_pods[row])

    def _deserved_later(self, row: int) -> Floats:
        """Return what the queue deserves once let-in gangs have their pods, in resources in which it has all that it requests."""
        if self._with_promised is None:
            self._with_promised = self._divide(requests=self._requests + np.maximum(self._inqueue, 0))
        is_met = self._deserved[row] >= self._requests[row]
        later: Floats = np.where(is_met, np.maximum(self._with_promised[row], self._deserved[row]), self._deserved[row])
        return later

    def preemptive(self, queue: Queue, amount: Ints) -> bool:
        row = self._rows[queue.name]
        if not queue.facts.is_open:
            return False
        wanted, most = self._allocated[row] + amount, self._most_pods[row]
        return not demand.short_rows(wanted, self._deserved[row], amount, most_pods=most)

    def reclaimable(self, preemptor: Task, job: Job, candidates: Sequence[tuple[Job, Task]]) -> list[tuple[Job, Task]]:
        """Return tasks of queues that exceed their deserved amounts, as long as they do."""
        del preemptor, job
        left: dict[int, Floats] = {}
        chosen: list[tuple[Job, Task]] = []
        for owner, task in candidates:
            row = self._rows[owner.facts.queue]
            has = left.get(row, self._allocated[row])
            if not self._is_above(row, has):
                continue
            left[row] = has - self._session.plan(task.facts.shape).request
            chosen.append((owner, task))
        return chosen

    def lowers_lack(self, moves: Sequence[Move]) -> bool:
        return self._lack.falls(moves, self._allocated)

    def exceeds_deserved(self, queue: str) -> bool:
        row = self._rows[queue]
        return self._is_above(row, self._allocated[row])

    def _is_above(self, row: int, amounts: Floats) -> bool:
        return not (amounts < self._deserved[row] + demand.EPSILON).all()

    def enqueueable(self, job: Job) -> Vote:
        row = self._rows[job.facts.queue]
        if not self._session.queues[job.facts.queue].facts.is_open:
            self._session.refuse(job, enqueue_refusals.closed(self._session, job.facts.queue))
            return Vote.REJECT
        minimum = job.facts.minimum(self._session.dimensions)
        if minimum is None:
            return Vote.PERMIT
        wanted = minimum + self._allocated[row] + self._inqueue[row] - self._elastic[row]
        short = demand.short_rows(wanted, self._limits[row], minimum, most_pods=self._most_pods[row])
        if not short:
            return Vote.PERMIT
        has, coming = self._allocated[row], self._inqueue[row] - self._elastic[row]
        cause = enqueue_refusals.by_queue(
            self._session, job, job.facts.queue, short, limit=self._limits[row], allocated=has, promised=coming
        )
        self._session.refuse(job, cause)
        return Vote.REJECT

    def promised(self, queue: str, amount: Floats) -> None:
        self._inqueue[self._rows[queue]] += amount
        self._with_promised = None

    def moved(self, move: Move, sign: int) -> None:
        self._allocated[self._rows[move.job.facts.queue]] += move.change * sign
