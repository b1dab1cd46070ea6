"""The room of a domain after evictions, as arrays: which evictions cannot be enough for a job is known without a trial.

The domain is a hypernode or the whole cluster. What the room tells is necessary for the placement of the job, not sufficient.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final

import numpy as np

from pyroclast_scheduler.eviction.part_room import least_request, request_of
from pyroclast_scheduler.eviction.victim_groups import Bundle
from pyroclast_scheduler.model.dimensions import CPU, MEMORY, Ints
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools, Rows
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.placement.plans import PlacementPlan
from pyroclast_scheduler.session.domains import PendingTasks
from pyroclast_scheduler.session.part_order import missing
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.session.whole_units import unit_of

__all__ = ["Demand", "DomainRoom"]

_Pods = tuple[tuple[PlacementPlan, int], ...]  # how many pods of each shape


@dataclass(frozen=True, slots=True)
class Demand:
    """What a job needs to start.

    Attributes:
        total: the sum of the requests, (dimensions,).
        counted: a mask of the dimensions of `total` that the room must cover: those that the job requests, and cpu and memory.
        starts: pods of which the job must place all of at least one entry, by shape.
    """

    total: Ints
    counted: Bools
    starts: Sequence[_Pods]

    @classmethod
    def of(cls, session: Session, job: Job, pending: PendingTasks) -> Demand:
        """Return the demand of `job` with the pending tasks `pending`, in the order of placement."""
        tree = job.facts.group.spec.tree
        if tree is None:
            total = request_of(session, chain.from_iterable(pending.values()))
            starts = [_pods(session, tasks) for tasks in islice(pending.values(), 1)]
        else:
            total = least_request(session, job, tree, pending)
            least = {uid: missing(job.sub_jobs[uid]) for uid in pending}
            starts = [_pods(session, islice(tasks, least[uid])) for uid, tasks in pending.items() if least[uid] <= len(tasks)]
        counted = total > 0
        counted[[CPU, MEMORY]] = True
        return cls(total, counted, list(dict.fromkeys(starts)))

    @property
    def plans(self) -> list[PlacementPlan]:
        """The plans of all shapes in `starts`, each once."""
        return list(dict.fromkeys(plan for pods in self.starts for plan, _ in pods))


class DomainRoom:
    """The room on `nodes` for `demand`. Bundles of pods leave and come back; the cost depends only on the nodes of their pods."""

    def __init__(self, session: Session, nodes: Bools, demand: Demand) -> None:
        self._session = session
        self._demand = demand
        self._nodes = nodes
        columns = session.columns
        self._free = columns.future_idle()
        self._sum: Ints = (columns.idle() + columns.releasing)[:, nodes].sum(axis=1)
        self._places: dict[PlacementPlan, Ints] = {}
        self._found: dict[PlacementPlan, int] = {}

    def could_suffice(self, freeable: Ints) -> bool:
        """Whether the room could be enough if all of `freeable`, (dimensions, nodes), is freed."""
        if self._lacks(self._sum + freeable[:, self._nodes].sum(axis=1)):
            return False
        rows, free = np.flatnonzero(self._nodes), self._free + freeable
        return self._has({plan: int(_places(plan, free, rows).sum()) for plan in self._demand.plans})

    def covers_request(self) -> bool:
        """Whether the sum of the room is at least the sum of the requests."""
        return not self._lacks(self._sum)

    def is_enough(self) -> bool:
        """Whether there could be places for the pods with which the job starts."""
        if not self._places:
            rows = np.flatnonzero(self._nodes)
            for plan in self._demand.plans:
                self._places[plan] = places = np.zeros(len(self._nodes), dtype=np.int64)
                places[rows] = _places(plan, self._free, rows)
                self._found[plan] = int(places.sum())
        return self._has(self._found)

    def leave(self, bundle: Bundle) -> None:
        """Free what the pods of `bundle` use."""
        self._move(bundle, 1)

    def come_back(self, bundle: Bundle) -> None:
        """Undo `leave`."""
        self._move(bundle, -1)

    def _move(self, bundle: Bundle, sign: int) -> None:
        session, nodes = self._session, self._nodes
        for task in bundle.tasks:
            self._sum += sign * session.plan(task.facts.shape).request
        going = {each.uid: each for task in bundle.tasks for each in unit_of(bundle.job, task)}
        for task in going.values():
            self._free[:, task.row] += sign * session.plan(task.facts.shape).request
        rows = np.array(sorted({task.row for task in going.values() if nodes[task.row]}), dtype=np.intp)
        for plan, places in self._places.items():
            now = _places(plan, self._free, rows)
            self._found[plan] += int(now.sum() - places[rows].sum())
            places[rows] = now

    def _lacks(self, room: Ints) -> bool:
        return bool((self._demand.total > room)[self._demand.counted].any())

    def _has(self, found: dict[PlacementPlan, int]) -> bool:
        return any(all(found[plan] >= count for plan, count in pods) for pods in self._demand.starts)


def _pods(session: Session, tasks: Iterable[Task]) -> _Pods:
    return tuple(Counter(session.plan(task.facts.shape) for task in tasks).items())


_ENDLESS: Final = 1 << 32
"""More pods than any node has."""


def _places(plan: PlacementPlan, free: Ints, rows: Rows) -> Ints:
    """Return for how many pods of the shape of `plan` the amounts `free` are enough on each of `rows`."""
    places = np.where(plan.mask[rows], _ENDLESS, 0)
    for row in plan.present:
        if plan.asks_for(row):
            np.minimum(places, free[row].take(rows) // plan.request[row], out=places)
    return np.maximum(places, 0)
