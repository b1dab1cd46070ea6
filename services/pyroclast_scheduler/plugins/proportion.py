"""Plugin proportion: each queue deserves a part of the cluster by weight, as far as it asks for it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pyroclast.api.enums import PodGroupPhase
from pyroclast_scheduler.framework import demand
from pyroclast_scheduler.framework.arguments import Arguments
from pyroclast_scheduler.framework.jobs import Job, Task
from pyroclast_scheduler.framework.plans import Plan
from pyroclast_scheduler.framework.plugin import Hooks, Vote
from pyroclast_scheduler.framework.points import Point
from pyroclast_scheduler.framework.session import Queue, Session
from pyroclast_scheduler.framework.statement import Move
from pyroclast_scheduler.model.columns import Floats
from pyroclast_scheduler.model.dimensions import CPU, MEMORY, PODS, Ints

__all__ = ["Proportion", "water_fill"]


class Proportion:
    """No arguments."""

    def __init__(self, arguments: Arguments) -> None:
        del arguments

    def open(self, session: Session) -> Hooks:
        """Register."""
        queues = _Queues(session)
        return {
            Point.QUEUE_ORDER: lambda queue: (-queue.facts.priority, queues.share(queue.name)),
            Point.OVERUSED: queues.overused,
            Point.ALLOCATABLE: queues.allocatable,
            Point.PREEMPTIVE: queues.preemptive,
            Point.RECLAIMABLE: queues.reclaimable,
            Point.JOB_ENQUEUEABLE: queues.enqueueable,
            Point.JOB_ENQUEUED: queues.enqueued,
            Point.EVENTS: queues.moved,
        }


def water_fill(total: Floats, weights: Floats, requests: Floats, limits: Floats, guarantees: Floats) -> Floats:
    """What each queue deserves, (queues, dimensions): by weight, at most what it wants and may have, at least its guarantee.

    What one queue cannot use is divided among the others, until nothing is left or nobody wants more.
    """
    deserved = np.zeros_like(requests)
    remaining = total.astype(np.float64)
    is_met = np.zeros(len(weights), dtype=np.bool_)
    while True:
        weight = weights[~is_met].sum()
        if weight == 0:
            return deserved
        open_rows = np.flatnonzero(~is_met)
        before = deserved[open_rows]
        after = before + remaining * (weights[open_rows] / weight)[:, None]
        after = np.maximum(np.minimum(np.minimum(after, limits[open_rows]), requests[open_rows]), guarantees[open_rows])
        deserved[open_rows] = after
        is_met[open_rows] = (requests[open_rows] < after + demand.EPSILON).all(axis=1) | (after == before).all(axis=1)
        grown = after - before
        left = np.maximum(remaining + np.maximum(-grown, 0).sum(axis=0) - np.maximum(grown, 0).sum(axis=0), 0)
        is_same = (np.abs(left - remaining) < demand.EPSILON).all()
        remaining = left
        if is_same or (np.delete(remaining, PODS) < demand.EPSILON).all():
            return deserved


class _Queues:
    """The sums of the queues that have jobs."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._names = session.dimensions.names
        self._rows: dict[str, int] = {}
        for job in session.jobs.values():
            self._rows.setdefault(job.facts.queue, len(self._rows))
        shape = (len(self._rows), len(session.dimensions))
        self._allocated, pending, self._inqueue, self._elastic = np.zeros((4, *shape), dtype=np.int64)
        for job in session.jobs.values():
            self._add(job, self._rows[job.facts.queue], pending)
        total = session.total
        guarantees = np.zeros(shape)
        limits = np.zeros(shape)
        promised = np.zeros(shape[1])
        for queue in session.queues.values():
            promised += session.dimensions.vector(queue.facts.guarantee)
        for name, row in self._rows.items():
            facts = session.queues[name].facts
            guarantees[row] = session.dimensions.vector(facts.guarantee)
            limits[row] = np.minimum(np.maximum(total - promised, 0) + guarantees[row], _capability(session, facts.capability))
        self._limits: Floats = limits
        weights = np.array([session.queues[name].facts.weight for name in self._rows], dtype=np.float64)
        requests = (self._allocated + pending).astype(np.float64)
        self._deserved = water_fill(total.astype(np.float64), weights, requests, limits, guarantees)

    def share(self, name: str) -> float:
        row = self._rows.get(name)
        return 0.0 if row is None else demand.share(self._allocated[row], self._deserved[row])

    def overused(self, queue: Queue, extra: Ints) -> bool:
        row = self._rows[queue.name]
        return bool((self._deserved[row] < self._allocated[row] + extra + demand.EPSILON).all())

    def allocatable(self, queue: Queue, plan: Plan, count: int) -> int:
        row = self._rows[queue.name]
        if not queue.facts.is_open:
            return 0
        return min(count, demand.copies_within(self._deserved[row], self._allocated[row], plan.request))

    def preemptive(self, queue: Queue, amount: Ints) -> bool:
        row = self._rows[queue.name]
        if not queue.facts.is_open:
            return False
        return not demand.short_names(self._allocated[row] + amount, self._deserved[row], amount, self._names)

    def reclaimable(self, preemptor: Task, job: Job, candidates: Sequence[tuple[Job, Task]]) -> list[tuple[Job, Task]]:
        """Tasks of queues that have more than they deserve, as long as they do."""
        del preemptor, job
        left: dict[int, Ints] = {}
        chosen: list[tuple[Job, Task]] = []
        for owner, task in candidates:
            row = self._rows[owner.facts.queue]
            has = left.get(row, self._allocated[row])
            if (has < self._deserved[row] + demand.EPSILON).all():
                continue
            left[row] = has - self._session.plan(task.facts.shape).request
            chosen.append((owner, task))
        return chosen

    def enqueueable(self, job: Job) -> Vote:
        row = self._rows[job.facts.queue]
        if not self._session.queues[job.facts.queue].facts.is_open:
            return Vote.REJECT
        minimum = job.facts.minimum(self._session.dimensions)
        if minimum is None:
            return Vote.PERMIT
        wanted = minimum + self._allocated[row] + self._inqueue[row] - self._elastic[row]
        short = demand.short_names(wanted, self._limits[row], minimum, self._names)
        if not short:
            return Vote.PERMIT
        listed = ", ".join(f"insufficient {name}" for name in short)
        self._session.note(job, "Normal", "Unschedulable", f"queue resource quota insufficient: {listed}")
        return Vote.REJECT

    def enqueued(self, job: Job) -> None:
        row = self._rows[job.facts.queue]
        self._inqueue[row] += demand.reserved(job, self._session.dimensions, less_allocated=False)

    def moved(self, move: Move, sign: int) -> None:
        self._allocated[self._rows[move.job.facts.queue]] += move.change * sign

    def _add(self, job: Job, row: int, pending: Ints) -> None:
        dimensions = self._session.dimensions
        pending[row] += job.facts.pending(dimensions)
        if job.allocated.any():
            self._allocated[row] += job.allocated
            self._elastic[row] += demand.elastic(job, dimensions)
        if job.facts.min_resources is not None and (job.phase is PodGroupPhase.INQUEUE or demand.is_running_with_minimum(job)):
            self._inqueue[row] += demand.reserved(job, dimensions, less_allocated=True)


def _capability(session: Session, capability: object) -> Floats:
    """A queue's capability as a vector: what it does not name, and cpu and memory that are not positive, are unlimited."""
    limit = np.full(len(session.dimensions), np.inf)
    if not capability or not isinstance(capability, dict):
        return limit
    for name, amount in capability.items():
        row = session.dimensions.row(name)
        limit[row] = np.inf if row in {CPU, MEMORY} and amount <= 0 else amount
    return limit
