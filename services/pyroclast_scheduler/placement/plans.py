"""A placement plan: the feasibility and scores that a session has calculated for one shape, updated node by node.

`Load` is the load of nodes for scores, before and after one more pod. `Ahead` keeps rows that an earlier equal search ranked.

`greedy` places k equal pods at once, with the same result as one after another: each pod goes to the node with the best score,
and to the lowest row among equal scores. The result is exact for two reasons. A greedy loop only sees the next score of each
node, so pods are placed in the order of the running minimum of each node's scores. And only the k nodes with the best first
scores can be chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import numpy as np

from pyroclast_scheduler.model.dimensions import MEMORY, Dimensions, Ints
from pyroclast_scheduler.model.fit_errors import Refusal
from pyroclast_scheduler.model.node_columns import Bools, Columns, Floats, Rows
from pyroclast_scheduler.model.shapes import Shape

NEVER = -np.inf
_FIRST_LOOK = 4096  # scores calculated at first over all nodes; doubled while a node accepts more pods
_FEW = 1024  # up to this number, sorting all values is cheaper than selecting the largest first


def greedy(first: Floats, count: int, copies: Callable[[Rows], Ints], scores: Callable[[Rows, int], Floats]) -> Rows:
    """Return the rows of the nodes for `count` equal pods in order of placement; fewer if there is no room for all.

    Args:
        first: the score of each node for one pod, `NEVER` for a node without room.
        count: the number of pods.
        copies: returns for some rows how many such pods fit on each (at least 1).
        scores: returns for some rows and a depth d an array (rows, d): the score of each node for its first to d-th pod.
    """
    if count == 1:
        best = int(first.argmax()) if len(first) else 0
        return np.array([best] if len(first) and first[best] != NEVER else [], dtype=np.intp)
    rows = _best(first, count)
    if len(rows) == 0:
        return rows
    room = np.minimum(copies(rows), count)
    deepest = int(room.max())
    depth = min(max(4, _FIRST_LOOK // len(rows)), deepest)
    grid = scores(rows, depth) if depth > 1 else first[rows][:, None]
    order = np.minimum.accumulate(np.where(np.arange(depth) < room[:, None], grid, NEVER), axis=1)
    while True:
        taken = _ranked(order.ravel(), count) // depth
        if depth == deepest:
            return rows[taken]
        short = np.flatnonzero((np.bincount(taken, minlength=len(rows)) == depth) & (room > depth))
        if not len(short):
            return rows[taken]
        deeper = min(2 * depth, int(room[short].max()))
        wider = np.full((len(rows), deeper), NEVER)
        wider[:, :depth] = order
        more = np.where(np.arange(deeper) < room[short, None], scores(rows[short], deeper), NEVER)
        wider[short] = np.minimum.accumulate(more, axis=1)
        order, depth = wider, deeper


def _ranked(values: Floats, count: int) -> Rows:
    """Return the positions of the `count` largest values, largest first and the first of equal ones, without `NEVER`."""
    if len(values) > _FEW:
        picked = _best(values, count)
        return picked[np.argsort(-values[picked], kind="stable")]
    picked = np.argsort(-values, kind="stable")[:count]
    return picked if values[picked[-1]] != NEVER else picked[values[picked] != NEVER]


def _best(values: Floats, count: int) -> Rows:
    """Return the positions of the `count` largest values in ascending order, the first ones of equal values, without `NEVER`."""
    if len(values) > count:
        threshold = _lower_bound(values, count)
        if threshold != NEVER:
            above = np.flatnonzero(values > threshold)
            if len(above) < count:  # then the bound is the count-th largest value
                level = np.flatnonzero(values == threshold)
            else:
                few = values[above]
                threshold = _largest(few, count)
                level, above = above[few == threshold], above[few > threshold]
            return np.sort(np.concatenate((above, level[: count - len(above)])))
    return np.flatnonzero(values != NEVER)


def _lower_bound(values: Floats, count: int) -> float:
    """Return a value that is at most the `count`-th largest; `NEVER` if that one is `NEVER`.

    Proof: if the values are divided into equal pieces, at least `count` pieces have a maximum of at least the count-th largest
    maximum.
    """
    pieces = 4 * count
    size = len(values) // pieces
    if size >= 4:
        bound = _largest(values[: pieces * size].reshape(pieces, size).max(axis=1), count)
        if bound != NEVER:
            return bound
    return _largest(values, count)


def _largest(values: Floats, count: int) -> float:
    """Return the `count`-th largest of at least `count` values."""
    return float(np.partition(values, len(values) - count)[len(values) - count])


class Load:
    """The load of some nodes. Arrays have the shape (dimensions, nodes, depth), and the last axis counts equal pods.

    Attributes:
        rows: the rows of the nodes, (nodes, 1).
        taken: the used amounts with 0, 1, … further pods; depth + 1 entries.
        used: the used amounts before the first, second, … further pod.
        after: the used amounts after the first, second, … further pod.
        non_zero_after: the same for cpu and memory only, where a container without a request counts a default.
    """

    __slots__ = ("_allocatable", "_columns", "after", "non_zero_after", "rows", "taken", "used")

    def __init__(self, columns: Columns, rows: Rows, request: Ints, non_zero: Ints) -> None:
        """Calculate the load of requests of 0, 1, 2, … pods, (dimensions, depth + 1, 1), and of `non_zero`, (2, depth, 1)."""
        # nodes are adjacent in memory, as they outnumber the pods; only the view has the axes in another order
        self.taken: Ints = (columns.used.take(rows, axis=1)[:, None, :] + request).transpose(0, 2, 1)
        self.rows: Ints = rows[:, None]
        self.used: Ints = self.taken[:, :, :-1]
        self.after: Ints = self.taken[:, :, 1:]
        self.non_zero_after: Ints = (columns.non_zero.take(rows, axis=1)[:, None, :] + non_zero).transpose(0, 2, 1)
        self._columns = columns
        self._allocatable: Ints | None = None

    @property
    def allocatable(self) -> Ints:
        """The allocatable amounts of the nodes, (dimensions, nodes, 1)."""
        if self._allocatable is None:
            self._allocatable = self._columns.allocatable.take(self.rows[:, 0], axis=1)[:, :, None]
        return self._allocatable


_NONE: Final = np.zeros(0, dtype=np.intp)
_MOST: Final = 1024  # the largest number of pods to look ahead: the cost of a search grows with the number, its gain does not


class Ahead:
    """The rows that were chosen in advance for the next pods of a plan. A position is a length of the log of moves."""

    def __init__(self) -> None:
        self.candidates: Bools = np.zeros(0, dtype=np.bool_)
        self._rows = _NONE
        self._at = -1
        self._more = 0

    def next(self, count: int, at: int) -> Rows:
        """Return up to `count` rows that are valid at position `at`; none if no rows are known."""
        return self._rows[:count] if at == self._at else _NONE

    def further(self, count: int, at: int) -> int:
        """Return how many pods to search for when `count` are needed: more after each time that all known rows were used."""
        self._more = min(_MOST, max(2 * self._more, count)) if at == self._at else 0
        self._rows, self._at = _NONE, at
        return count + self._more

    def keep(self, rows: Rows, candidates: Bools, at: int) -> None:
        """Store `rows` for the next pods, chosen among `candidates` at position `at`."""
        self._rows, self.candidates, self._at = rows, candidates, at

    def placed(self, rows: Rows, at: int) -> None:
        """Record that pods of the placement plan were placed on `rows`. `at`: the position after this move."""
        if at == self._at + 1 and (not len(self._rows) or np.array_equal(rows, self._rows[: len(rows)])):
            self._rows, self._at = self._rows[len(rows) :], at
        else:
            self._rows, self._at = _NONE, -1


T = TypeVar("T")

_ENDLESS = np.iinfo(np.int64).max // 4
_REFRESH_ALL = 2  # if more than one node in this number changed, calculating all nodes again is cheaper


class NodeScore(Protocol):
    """The score of nodes for one more pod of a shape, from their own load; larger is better."""

    def __call__(self, plan: PlacementPlan, load: Load) -> Floats:
        """Return scores that broadcast to (nodes, depth)."""
        ...


class Predicate(Protocol):
    """The filters of a plugin for a shape. All arrays have one entry per node."""

    def mask(self, plan: PlacementPlan) -> Bools | None:
        """Return a mask of the nodes that are feasible by shape and node object alone; None if all nodes are."""

    def limits(self, plan: PlacementPlan, rows: Rows) -> Ints | None:
        """Return how many more pods of this shape each of `rows` accepts in the present state; None if there is no limit."""

    def refusals(self, plan: PlacementPlan) -> Sequence[Refusal]:
        """Return which nodes are infeasible and why, in the order in which the filters examine nodes."""


class PlacementPlan:
    """The feasibility and scores of all nodes for one shape, its request as a vector, and the rows `present` in it."""

    def __init__(self, shape: Shape, dimensions: Dimensions, columns: Columns, ready: Bools) -> None:
        self.shape = shape
        self.request: Ints = dimensions.vector(shape.request)
        self.present = sorted({dimensions.row(name) for name in shape.request})
        self.non_zero = np.array([shape.non_zero_cpu, shape.non_zero_memory], dtype=np.int64)
        self._wanted = [row for row in self.present if self.request[row] > 0]
        # only a pod without any request may be placed on a node whose usage exceeds its allocatable amounts
        self._idle_only = [row for row in self.present if self.request[row] == 0 and not shape.is_best_effort]
        self._columns = columns
        self._dimensions = dimensions
        self._filters: Sequence[Predicate] = ()
        self._scorers: Sequence[NodeScore] = ()
        self.mask: Bools = ready
        self._memory: dict[Hashable, Any] = {}
        self._asked: dict[int, tuple[Ints, Ints]] = {}
        self._first: Floats | None = None
        self._scored: Floats | None = None
        self._scored_at = 0
        self._seen = 0
        self.ahead = Ahead()

    def use(self, filters: Sequence[Predicate], scores: Sequence[NodeScore]) -> None:
        """Set the filters and scores, and calculate everything that does not depend on placements."""
        self._filters, self._scorers = filters, scores
        for each in filters:
            mask = each.mask(self)
            if mask is not None:
                self.mask = self.mask & mask

    def asks_for(self, row: int) -> bool:
        """Whether the shape requests more than 0 of the resource whose row in the arrays of resources is `row`."""
        return row in self._wanted

    def once(self, what: Hashable, measure: Callable[[], T]) -> T:
        """Return the result of `measure`, which is calculated only once for each `what` in this plan."""
        if what not in self._memory:
            self._memory[what] = measure()
        found: T = self._memory[what]
        return found

    def room(self, rows: Rows, *, future: bool) -> Ints:
        """Return how many more pods of this shape fit on each of `rows`: now, or in the `future` without the releasing pods."""
        columns = self._columns
        copies = np.full(len(rows), _ENDLESS, dtype=np.int64)
        for row in self._wanted:
            np.minimum(copies, columns.free(row, rows, future=future) // self.request[row], out=copies)
        for row in self._idle_only:
            copies[columns.free(row, rows, future=future) < 0] = 0
        for each in self._filters:
            limits = each.limits(self, rows)
            if limits is not None:
                np.minimum(copies, limits, out=copies)
        copies[~self.mask[rows]] = 0
        return np.maximum(copies, 0)

    def score(self, rows: Rows, depth: int, *, future: bool = False) -> Floats:
        """Return scores (rows, depth) for the first, second, … pod on each row. `future`: pipelined pods add no load yet."""
        if future and depth > 1:
            return np.repeat(self.score(rows, 1, future=True), depth, axis=1)
        load = Load(self._columns, rows, *self._steps(depth))
        total = np.zeros((depth, len(rows))).T
        for score in self._scorers:
            total += score(self, load)
        return total

    def first(self, log: Sequence[Rows]) -> Floats:
        """Return for every node its score for one pod now, NEVER without room. `log`: the rows that changed so far."""
        nodes = self._columns.nodes
        if self._first is None:
            self._first = np.empty(nodes)
            self._renew(np.arange(nodes))
        elif self._seen < len(log):
            is_changed = np.zeros(nodes, dtype=np.bool_)
            is_changed[np.concatenate(log[self._seen :])] = True
            changed = np.flatnonzero(is_changed)
            self._renew(np.arange(nodes) if len(changed) * _REFRESH_ALL > nodes else changed)
        self._seen = len(log)
        return self._first

    def scores(self, log: Sequence[Rows]) -> Floats:
        """The same as `first`, but with or without room."""
        nodes = self._columns.nodes
        if self._scored is None:
            self._scored = self.score(np.arange(nodes), 1)[:, 0]
        elif self._scored_at < len(log):
            changed = np.unique(np.concatenate(log[self._scored_at :]))
            self._scored[changed] = self.score(changed, 1)[:, 0]
        self._scored_at = len(log)
        return self._scored

    def place(self, first: Floats, count: int, *, future: bool, extra: Floats | None = None) -> Rows:
        """Return the rows of the best nodes for up to `count` pods, best first, see `greedy`. `extra` is added to the scores."""

        def scores(rows: Rows, depth: int) -> Floats:
            found = self.score(rows, depth, future=future)
            return found if extra is None else found + extra[rows][:, None]

        return greedy(first, count, partial(self.room, future=future), scores)

    def future_first(self) -> Floats:
        """Return for every node its score for one pipelined pod, NEVER for nodes without room."""
        rows, result = np.flatnonzero(self.mask), np.full(self._columns.nodes, NEVER)
        rows = rows[self.room(rows, future=True) > 0]
        if len(rows):
            result[rows] = self.score(rows, 1, future=True)[:, 0]
        return result

    def refusals(self) -> list[Refusal]:
        """Return why nodes are refused, in the order of examination: resources first, then the filters of the plugins."""
        future = self._columns.future_idle()
        named = self._dimensions.named(self._wanted + self._idle_only, self.shape.request)
        ordered = sorted(named, key=lambda each: (each[1] > MEMORY, each[0])) if not self.shape.is_best_effort else ()
        refusals = [Refusal(self.request[row] > future[row], f"Insufficient {name}", is_last=True) for name, row in ordered]
        for each in self._filters:
            refusals += (*each.refusals(self), Refusal(np.zeros_like(self.mask), "", is_last=True))
        return refusals

    def _steps(self, depth: int) -> tuple[Ints, Ints]:
        """Return the requests of 0, 1, … pods of the shape in the form that `Load` uses."""
        steps = self._asked.get(depth)
        if steps is None:
            counts = np.arange(depth + 1, dtype=np.int64)[:, None]
            steps = self._asked[depth] = self.request[:, None, None] * counts, self.non_zero[:, None, None] * counts[1:]
        return steps

    def _renew(self, rows: Rows) -> None:
        assert self._first is not None  # noqa: S101 - set by the only caller
        does_fit = self._has_room(rows)
        if not does_fit.all():
            self._first[rows] = NEVER
            rows = rows[does_fit]
        if len(rows):
            self._first[rows] = self.score(rows, 1)[:, 0]

    def _has_room(self, rows: Rows) -> Bools:
        """Return where `room` is above 0 now. This costs less than counting."""
        columns = self._columns
        has_room: Bools = self.mask.take(rows)
        for row in self._wanted + self._idle_only:
            has_room &= columns.free(row, rows, future=False) >= self.request[row]
        for each in self._filters:
            limits = each.limits(self, rows)
            if limits is not None:
                has_room &= limits > 0
        return has_room
