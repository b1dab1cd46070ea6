"""Decides whether changed nodes may have room for a pod that had none before, with or without evictions."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final

import numpy as np

from pyroclast_scheduler.cache.nodes import NodeTable
from pyroclast_scheduler.cache.noted_changes import Changes
from pyroclast_scheduler.model.dimensions import Dimensions, Ints
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.node_columns import Rows
from pyroclast_scheduler.model.shapes import Shape
from pyroclast_scheduler.model.triggers import Eviction, Room

_MANY_ROWS: Final = 200  # above this number, all pods on these nodes count as possible victims
_MANY_PODS: Final = 5000  # pods of changed jobs; above this number, all nodes count as changed
_ALL: Final = "*"  # no queue has this name
_MANY_COPIES: Final = 2**31  # copies of one pod on a node, for a pod without requests


class Rooms:
    """The changed nodes, whose room may suffice for a pod now. `nodes`: the table of all nodes, read at each call."""

    def __init__(self, changes: Changes, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._rows = np.fromiter(changes.rows, dtype=np.intp, count=len(changes.rows))
        self._is_open: dict[Shape, bool] = {}
        self._all: dict[Shape, int] = {}
        self._most: dict[str, int] = {}

    def may_hold(self, room: Room) -> bool:
        """Whether a changed node has room for one pod, and all nodes together have room for all pods of the trigger."""
        shape = room.shape
        if shape not in self._is_open:
            self._is_open[shape] = self._may_fit(shape) and bool(self._copies(shape, self._rows).any())
        if not self._is_open[shape] or room.pods <= 1:
            return self._is_open[shape]
        if shape not in self._all:
            self._all[shape] = int(self._copies(shape, np.arange(self._nodes.columns.nodes)).sum())
        return room.pods <= self._all[shape]

    def _may_fit(self, shape: Shape) -> bool:
        """Whether each requested amount is free on some changed node; a quick check that excludes most shapes."""
        return not any(amount and amount > self._most_free(name) for name, amount in shape.request.items())

    def _most_free(self, name: str) -> int:
        if name not in self._most:
            free = self._nodes.columns.free(self._nodes.dimensions.row(name), self._rows, future=True)
            self._most[name] = int(free.max(initial=0))
        return self._most[name]

    def _copies(self, shape: Shape, rows: Rows) -> Ints:
        """Return how many more pods of `shape` each node has room for by its resources, once its releasing pods are gone."""
        copies = np.full(len(rows), _MANY_COPIES, dtype=np.int64)
        for name, amount in shape.request.items():
            free = self._nodes.columns.free(self._nodes.dimensions.row(name), rows, future=True)
            if amount:
                np.minimum(copies, np.maximum(free, 0) // amount, out=copies)
            elif not shape.is_best_effort:
                copies[free < 0] = 0
        return copies


class Victims:
    """The room that evictions could free on changed nodes.

    Args:
        changes: the changes.
        jobs: all jobs.
        placed: the queues with allocated pods.
        nodes: the table that is read when a question is answered.
    """

    def __init__(self, changes: Changes, *, jobs: Mapping[str, JobFacts], placed: AbstractSet[str], nodes: NodeTable) -> None:
        self._is_any = changes.are_victims
        self._is_demand = changes.is_demand
        self._jobs = jobs
        self._nodes = nodes
        self._rooms: dict[str, _Room] = {}
        self._placed = placed
        changed = [facts for key in changes.jobs if (facts := jobs.get(key)) is not None]
        self._touched: dict[str, set[int]] = {"": changes.rows}
        self._is_everywhere = sum(len(each.tasks) for each in changed) > _MANY_PODS
        for each in changed if not self._is_everywhere else ():
            at = {nodes.rows[task.node] for task in each.tasks if task.node in nodes.rows}
            self._touched.setdefault(each.queue, set()).update(at)

    @property
    def rows(self) -> set[int] | None:
        """The rows that changed themselves, or on which changed jobs have pods; None if these may be all rows."""
        return None if self._is_any or self._is_everywhere else set().union(*self._touched.values())

    def may_help(self, wish: Eviction) -> bool:
        """Whether the changes allow evictions to make room for a pod for which they could not make room before."""
        is_anywhere = self._is_any or (self._is_demand and not wish.only_own and bool(self._placed - {wish.queue}))
        where = _ALL if is_anywhere else wish.queue if wish.only_own else ""
        if where not in self._rooms:
            amounts = self._nodes.columns.allocatable if is_anywhere else self._without_victims(wish)
            self._rooms[where] = _Room(amounts, self._nodes.dimensions)
        return any(map(self._rooms[where].may_hold, wish.shapes))

    def _without_victims(self, wish: Eviction) -> Ints:
        """Return the amounts that would be free on the changed rows without the possible victims."""
        columns, residents = self._nodes.columns, self._nodes.residents
        if self._is_everywhere:
            return columns.allocatable
        own = self._touched[""] | self._touched.get(wish.queue, set())
        touched = own if wish.only_own else set().union(*self._touched.values())
        rows = np.fromiter(touched, dtype=np.intp, count=len(touched))
        if len(rows) > _MANY_ROWS:
            return columns.allocatable[:, rows]
        room = columns.future_idle(rows)
        for at, row in enumerate(rows.tolist()):
            for task in residents[row] if row < len(residents) else ():
                owner = self._jobs.get(task.job)
                if owner is not None and task.is_preemptable and (owner.queue == wish.queue or not wish.only_own):
                    for name, amount in task.shape.request.items():
                        room[self._nodes.dimensions.row(name), at] += amount
        return room


class _Room:
    """Amounts that may be free on nodes, (dimensions, nodes)."""

    def __init__(self, amounts: Ints, dimensions: Dimensions) -> None:
        self._amounts, self._row = amounts, dimensions.row
        self._most = amounts.max(axis=1).tolist() if amounts.size else []

    def may_hold(self, shape: Shape) -> bool:
        """Whether a node has room for one pod."""
        asked = [(self._row(name), amount) for name, amount in shape.request.items()]
        if not self._most or any(amount > self._most[row] for row, amount in asked):
            return False  # most shapes are excluded here
        fits = np.ones(self._amounts.shape[1], dtype=np.bool_)
        for row, amount in asked:
            fits &= self._amounts[row] >= amount
        return bool(fits.any())
