"""The table of nodes: arrays that are updated by watch events. The row of a node stays the same while the node exists."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

import numpy as np

from pyroclast.api import keys, records
from pyroclast_scheduler.cache.changes import Changes
from pyroclast_scheduler.cache.reads import ReadAnnotations
from pyroclast_scheduler.model.dimensions import UNKNOWN, Dimensions, amounts_of, counted_of
from pyroclast_scheduler.model.faults import uncounted
from pyroclast_scheduler.model.node_columns import Bools, Columns
from pyroclast_scheduler.model.shapes import Port, Shape
from pyroclast_scheduler.model.tasks import TaskFacts, TaskStatus

_FIRST_ROOM: Final = 64
_SMALL: Final = 2**44  # smaller amounts are added in place: half a million of them on one node cannot overflow
_FULL: Final = 2**62  # the largest stored sum of one node
_OVERSUBSCRIPTION: Final = (("cpu", keys.OVERSUBSCRIPTION_CPU), ("memory", keys.OVERSUBSCRIPTION_MEMORY))


class NodeTable:
    """Rows by node name. A pod on an unknown node creates a placeholder row, which no session uses until the node exists.

    Attributes:
        stamps: increases for a row whenever a property of the node changes on which feasibility may depend.
        residents: the pods of each row that use resources. The tuples never change, so that sessions share them.

    Args:
        kept: returns the resources that need rows even if no node has them.
    """

    def __init__(self, dimensions: Dimensions, changes: Changes, kept: Callable[[], set[str]]) -> None:
        self.dimensions = dimensions
        self._changes = changes
        self.names: list[str] = []
        self.rows: dict[str, int] = {}
        self.records: list[records.Node | None] = []
        self.residents: list[tuple[TaskFacts, ...]] = []
        self.columns = Columns.empty(len(dimensions), _FIRST_ROOM)
        self.is_ready: Bools = np.zeros(_FIRST_ROOM, dtype=np.bool_)
        self.stamps = np.zeros(_FIRST_ROOM, dtype=np.int64)
        self.ports: dict[int, Counter[Port]] = {}
        self._kept = kept
        self._read = ReadAnnotations()
        self._exact: dict[tuple[str, int, int], int] = {}
        self._clock = 0
        self._free: list[int] = []

    def set_node(self, node: records.Node) -> bool:
        """Set a node. Return whether anything changed that sessions examine. A resource with an invalid quantity is absent."""
        node = self._read.noting(node)
        amounts, _ = allocatable_of(node)
        self.learn(amounts)
        for name, amount in oversubscription(node)[0].items():
            amounts[name] = amounts.get(name, 0) + amount
        row = self._row(node.metadata.name)
        before = self.records[row]
        self.records[row] = node
        if self._read.is_late():
            for each in range(len(self.names)):
                self._touch(each)
        elif before is not None and self._same(before, node):
            return False
        if before is None or before.metadata.labels != node.metadata.labels or before.spec != node.spec:
            self._changes.are_neighbours = True
        vector = self.dimensions.known(amounts)
        self.fit()
        self.columns.allocatable[:, row] = 0
        self.columns.allocatable[: len(vector), row] = vector
        self.is_ready[row] = True
        self._touch(row)
        return True

    def _same(self, old: records.Node, new: records.Node) -> bool:
        """Whether nothing changed that a session examines. A heartbeat must not start a session."""
        a, b = old.metadata, new.metadata
        return (
            old.status.allocatable == new.status.allocatable
            and old.status.capacity == new.status.capacity
            and a.labels == b.labels
            and self._read.are_same(a.annotations, b.annotations)
            and old.spec == new.spec
            and old.status.images == new.status.images
        )

    def learn(self, names: Iterable[str]) -> None:
        """Give rows to the resources of one object and count what pods on nodes use of them, as long as there are rows.

        If rows are scarce, the rows of resources that no node has and `kept` does not name are reused.
        """
        missing = self.dimensions.missing(counted_of(names))
        if not missing:
            return
        freed: list[int] = []
        if len(missing) > self.dimensions.left:
            of_nodes = (node.status.allocatable for node in self.records if node is not None)
            freed = self.dimensions.drop(self._kept().union(names, *of_nodes))
        renamed = [UNKNOWN, *freed, *self.dimensions.add(missing)]
        self.fit()
        for column in (self.columns.allocatable, self.columns.used, self.columns.releasing, self.columns.pipelined):
            column[renamed] = 0
        self._exact = {place: amount for place, amount in self._exact.items() if place[1] not in renamed}
        asked: dict[Shape, list[tuple[int, int]]] = {}
        for row, tasks in enumerate(self.residents):
            for task in tasks:
                if task.shape not in asked:
                    parts = ((self.dimensions.row(name), amount) for name, amount in task.shape.request.items())
                    asked[task.shape] = [(dimension, amount) for dimension, amount in parts if dimension in renamed]
                for dimension, amount in asked[task.shape]:
                    self._take(dimension, row, amount, task.status)

    def faults(self, node: records.Node) -> list[str]:
        """Return the faults of a known node. The invalid fields of the node are ignored."""
        amounts, faults = allocatable_of(node)
        return [*faults, *oversubscription(node)[1], *uncounted(self.dimensions, amounts)]

    def may_be_roomier(self, name: str) -> None:
        """Record that node `name`, if it is known, may accept pods that it did not accept before."""
        row = self.rows.get(name)
        if row is not None:
            self._changes.rows.add(row)

    def expect(self, name: str) -> None:
        """Create a placeholder row for a node that only pods name so far."""
        self._row(name)

    def remove_node(self, name: str) -> tuple[TaskFacts, ...]:
        """Remove a node and return its pods. While pods name the node, its row stays as a placeholder."""
        row = self.rows.get(name)
        if row is None:
            return ()
        self.records[row] = None
        self._changes.are_neighbours = True
        self.columns.allocatable[:, row] = 0
        self.is_ready[row] = False
        self._touch(row)
        self._release(row)
        return self.residents[row]

    def add(self, task: TaskFacts) -> None:
        """Add `task` to its node."""
        row = self._row(task.node)
        self.residents[row] = (*self.residents[row], task)
        self._count(row, task.shape, task.status, 1)
        if task.status is TaskStatus.RELEASING:
            self._changes.rows.add(row)

    def remove(self, task: TaskFacts) -> None:
        """Remove `task` from its node."""
        row = self.rows[task.node]
        self.residents[row] = tuple(each for each in self.residents[row] if each.uid != task.uid)
        self._count(row, task.shape, task.status, -1)
        self._changes.rows.add(row)
        self._release(row)

    def replace(self, before: TaskFacts, task: TaskFacts) -> None:
        """Replace `before` by `task`, which uses the same amounts of the same node."""
        row = self.rows[task.node]
        self.residents[row] = tuple(task if each.uid == before.uid else each for each in self.residents[row])

    def short_of(self, shape: Shape, node: str) -> list[str]:
        """Return the resources of which `node` has too little for one more pod of `shape`; all resources if the node is unknown.

        A pod without requests fits on an overcommitted node, as in sessions.
        """
        row = self.rows.get(node)
        if row is None or self.records[row] is None:
            return list(shape.request)
        idle = self.columns.allocatable[:, row] - self.columns.used[:, row]
        counted = [(name, amount) for name, amount in shape.request.items() if amount or not shape.is_best_effort]
        return [name for name, amount in counted if amount > idle[self.dimensions.row(name)]]

    def is_known(self, node: str) -> bool:
        """Whether the node exists."""
        row = self.rows.get(node)
        return row is not None and self.records[row] is not None

    def taken(self) -> Columns:
        """Return a copy of the arrays of nodes without the rows that are allocated in advance."""
        count = len(self.names)
        columns = self.columns.resized(len(self.dimensions), self.columns.nodes)
        for name in ("allocatable", "used", "releasing", "pipelined", "non_zero"):
            setattr(columns, name, getattr(columns, name)[:, :count])
        columns.pod_count = columns.pod_count[:count]
        return columns

    def _row(self, name: str) -> int:
        row = self.rows.get(name)
        if row is None:
            if self._free:
                row = self._free.pop()
                self.names[row] = name
            else:
                row = len(self.names)
                self.names.append(name)
                self.records.append(None)
                self.residents.append(())
                self.fit()
            self.rows[name] = row
        return row

    def _release(self, row: int) -> None:
        if self.records[row] is None and not self.residents[row]:
            del self.rows[self.names[row]]
            self.names[row] = ""
            self._free.append(row)

    def _count(self, row: int, shape: Shape, status: TaskStatus, sign: int) -> None:
        self.fit()
        for name, amount in shape.request.items():
            self._take(self.dimensions.row(name), row, sign * amount, status)
        self._add("non_zero", 0, row, sign * shape.non_zero_cpu)
        self._add("non_zero", 1, row, sign * shape.non_zero_memory)
        self.columns.pod_count[row] += sign
        for port in shape.ports:
            ports = self.ports.setdefault(row, Counter())
            ports[port] += sign
            if not ports[port]:
                del ports[port]

    def _take(self, dimension: int, row: int, amount: int, status: TaskStatus) -> None:
        self._add("used", dimension, row, amount)
        if status is TaskStatus.RELEASING:
            self._add("releasing", dimension, row, amount)

    def _add(self, name: str, dimension: int, row: int, amount: int) -> None:
        """Add to one sum. A sum beyond the range of the column is stored beside the column, so that it can decrease again."""
        column = getattr(self.columns, name)
        place = (name, dimension, row)
        if -_SMALL <= amount <= _SMALL and place not in self._exact:
            column[dimension, row] += amount
            return
        exact = self._exact.pop(place, int(column[dimension, row])) + amount
        if not -_FULL <= exact <= _FULL:
            self._exact[place] = exact
        column[dimension, row] = max(-_FULL, min(exact, _FULL))

    def fit(self) -> None:
        """Enlarge the arrays of nodes to all present dimensions and rows."""
        dimensions, room = self.columns.allocatable.shape
        if len(self.dimensions) > dimensions or len(self.names) > room:
            room = max(room, 2 * len(self.names) if len(self.names) > room else room)
            self.columns = self.columns.resized(len(self.dimensions), room)
            self.stamps = np.pad(self.stamps, (0, room - len(self.stamps)))
            self.is_ready = np.pad(self.is_ready, (0, room - len(self.is_ready)))

    def _touch(self, row: int) -> None:
        self._clock += 1
        self.stamps[row] = self._clock
        self._changes.rows.add(row)


def allocatable_of(node: records.Node) -> tuple[dict[str, int], list[str]]:
    """Return the allocatable amounts of a node, and the faults of its invalid quantities, which are left out."""
    try:
        return amounts_of(node.status.allocatable), []
    except ValueError:
        pass
    amounts: dict[str, int] = {}
    faults = []
    for name, quantity in node.status.allocatable.items():
        try:
            amounts |= amounts_of({name: quantity})
        except ValueError as error:
            faults.append(f"status.allocatable: {error}; it counts as 0")
    return amounts, faults


def oversubscription(node: records.Node) -> tuple[dict[str, int], list[str]]:
    """Return the amounts that a node offers beyond its allocatable amounts by annotation, and the faults of annotations."""
    amounts: dict[str, int] = {}
    faults: list[str] = []
    for name, key in _OVERSUBSCRIPTION:
        text = node.metadata.annotations.get(key)
        if not text:
            continue
        try:
            amount = float(text)
        except ValueError:
            amount = math.nan
        if math.isfinite(amount) and 0 <= amount <= _FULL:
            amounts[name] = int(amount)
        else:
            faults.append(f"annotation {key}: {text[:40]!r} is not a number of at least 0, and counts as 0")
    return amounts, faults
