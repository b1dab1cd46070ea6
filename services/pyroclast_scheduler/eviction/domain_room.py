"""The room of a domain after evictions, as arrays: which evictions cannot be enough for a job is known without a trial.

The domain is a hypernode or the whole cluster. What the room tells is necessary for the placement of the job, not sufficient.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final

import numpy as np

from pyroclast_scheduler.eviction.part_room import least_request, request_of
from pyroclast_scheduler.eviction.victims import Bundle
from pyroclast_scheduler.model.dimensions import CPU, MEMORY, Ints
from pyroclast_scheduler.model.fit_errors import DomainLimit
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools, Rows
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.placement.plans import PlacementPlan
from pyroclast_scheduler.session.domains import PendingTasks
from pyroclast_scheduler.session.part_placement import missing
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.session.statement import unit_of
from pyroclast_scheduler.session.task_placement import alike

_Pods = tuple[tuple[PlacementPlan, int], ...]  # how many pods of each shape
_Limits = Mapping[PlacementPlan, Sequence[DomainLimit]]


@dataclass(frozen=True, slots=True)
class Demand:
    """What a job needs to start.

    Attributes:
        total: the sum of the requests, (dimensions,).
        counted: a mask of the dimensions of `total` that the room must cover: those that the job requests, and cpu and memory.
        starts: pods of which the job must place all of at least one entry, by shape.
        limits: for each shape in `starts` the limits of topology domains that no eviction raises.
    """

    total: Ints
    counted: Bools
    starts: Sequence[_Pods]
    limits: _Limits

    @classmethod
    def of(cls, session: Session, job: Job, pending: PendingTasks) -> Demand:
        """Return the demand of `job` with the pending tasks `pending`, in the order of placement."""
        tree = job.facts.group.spec.tree
        if tree is None:
            total = request_of(session, chain.from_iterable(pending.values()))
            firsts = [list(tasks) for tasks in islice(pending.values(), 1)]
        else:
            total = least_request(session, job, tree, pending)
            least = {uid: missing(job.sub_jobs[uid]) for uid in pending}
            firsts = [list(islice(tasks, least[uid])) for uid, tasks in pending.items() if least[uid] <= len(tasks)]
        starts = (tuple(Counter(session.plan(task.facts.shape) for task in tasks).items()) for tasks in firsts)
        counted = total > 0
        counted[[CPU, MEMORY]] = True
        return cls(total, counted, list(dict.fromkeys(starts)), _limits(session, firsts))


class DomainRoom:
    """The room on `nodes` for `demand`. Bundles of pods leave and come back; the cost depends only on the nodes of their pods."""

    def __init__(self, session: Session, nodes: Bools, demand: Demand) -> None:
        self._session = session
        self._demand = demand
        self._nodes = nodes
        columns = session.columns
        room = columns.idle() + columns.releasing
        self._free: Ints = room - columns.pipelined
        self._sum: Ints = room[:, nodes].sum(axis=1)
        self._places: dict[PlacementPlan, _Places] = {}

    def could_suffice(self, freeable: Ints) -> bool:
        """Whether the room could be enough if all of `freeable`, (dimensions, nodes), is freed."""
        would_cover = not self._lacks(self._sum + freeable[:, self._nodes].sum(axis=1))
        return would_cover and self._has(self._all_places(self._free + freeable))

    def covers_request(self) -> bool:
        """Whether the sum of the room is at least the sum of the requests."""
        return not self._lacks(self._sum)

    def is_enough(self) -> bool:
        """Whether there could be places for the pods with which the job starts."""
        if not self._places:
            self._places = self._all_places(self._free)
        return self._has(self._places)

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
        for places in self._places.values():
            places.renew(self._free, rows)

    def _lacks(self, room: Ints) -> bool:
        return bool((self._demand.total > room)[self._demand.counted].any())

    def _all_places(self, free: Ints) -> dict[PlacementPlan, _Places]:
        rows = np.flatnonzero(self._nodes)
        by_plan = {plan: _Places(plan, limits, len(self._nodes)) for plan, limits in self._demand.limits.items()}
        for places in by_plan.values():
            places.renew(free, rows)
        return by_plan

    def _has(self, by_plan: Mapping[PlacementPlan, _Places]) -> bool:
        return any(all(by_plan[plan].number >= count for plan, count in pods) for pods in self._demand.starts)


class _Places:
    """For how many pods of one shape there are places at most, by resources and by limits of topology domains."""

    def __init__(self, plan: PlacementPlan, limits: Sequence[DomainLimit], nodes: int) -> None:
        self._plan = plan
        self._by_node: Ints = np.zeros(nodes, dtype=np.int64)
        self._by_domain = [(limit, np.zeros(len(limit.room), dtype=np.int64)) for limit in limits]
        self._numbers = [0, *(0 for _ in limits)]  # by node, and within each limit

    @property
    def number(self) -> int:
        """The number of places."""
        return min(self._numbers)

    def renew(self, free: Ints, rows: Rows) -> None:
        """Count again on `rows`. `free`: the amounts that are free, (dimensions, nodes)."""
        plan = self._plan
        now = np.where(plan.mask[rows], 1 if plan.shape.ports else _ENDLESS, 0)
        for row in plan.present:
            if plan.asks_for(row):
                np.minimum(now, free[row].take(rows) // plan.request[row], out=now)
        np.maximum(now, 0, out=now)
        change = now - self._by_node[rows]
        self._by_node[rows] = now
        self._numbers[0] += int(change.sum())
        for i, (limit, places) in enumerate(self._by_domain, 1):
            domains = np.unique(limit.codes[rows])
            before = np.minimum(places[domains], limit.room[domains]).sum()
            np.add.at(places, limit.codes[rows], change)
            self._numbers[i] += int(np.minimum(places[domains], limit.room[domains]).sum() - before)


_ENDLESS: Final = 1 << 32
"""More pods than any node has."""


def _limits(session: Session, firsts: Iterable[Iterable[Task]]) -> _Limits:
    """Return the limits of each shape that evictions never raise; none for a shape of which the pods are not alike."""
    by_plan: dict[PlacementPlan, list[Task]] = {}
    for task in chain.from_iterable(firsts):
        by_plan.setdefault(session.plan(task.facts.shape), []).append(task)
    found: dict[PlacementPlan, Sequence[DomainLimit]] = {}
    for plan, tasks in by_plan.items():
        are_alike = alike(session, tasks) == len(tasks)
        limits = (refusal.limit for refusal in session.coupled_refusals(tasks[0], plan) or ()) if are_alike else ()
        found[plan] = [limit for limit in limits if limit is not None and limit.is_fixed]
    return found
