"""The table of nodes: columns updated by events, rows that stay where they are while a node lives."""

from __future__ import annotations

from collections import Counter

import numpy as np

from pyroclast.api import keys, records
from pyroclast_scheduler.model.columns import Columns
from pyroclast_scheduler.model.dimensions import Dimensions, amounts_of
from pyroclast_scheduler.model.shapes import Port, Shape
from pyroclast_scheduler.model.statuses import TaskStatus
from pyroclast_scheduler.model.tasks import TaskFacts

__all__ = ["NodeTable"]

_FIRST_ROOM = 64


class NodeTable:
    """Rows by node name. A pod on a node not yet known gets a placeholder row, which no session uses until the node appears.

    `stamps` rises for a row whenever something about the node changed on which feasibility may depend.
    """

    def __init__(self, dimensions: Dimensions) -> None:
        self.dimensions = dimensions
        self.names: list[str] = []
        self.rows: dict[str, int] = {}
        self.records: list[records.Node | None] = []
        self.columns = Columns.empty(len(dimensions), _FIRST_ROOM)
        self.stamps = np.zeros(_FIRST_ROOM, dtype=np.int64)
        self.ports: dict[int, Counter[Port]] = {}
        self._clock = 0
        self._free: list[int] = []

    def set_node(self, node: records.Node) -> bool:
        """Take up a node or its change; whether anything that matters to a session changed.

        Raises:
            ValueError: a quantity of the node makes no sense; nothing was changed.
        """
        amounts = _allocatable(node)
        row = self._row(node.metadata.name)
        before = self.records[row]
        self.records[row] = node
        if before is not None and _same(before, node):
            return False
        vector = self.dimensions.vector(amounts)
        self._fit()
        self.columns.allocatable[:, row] = 0
        self.columns.allocatable[: len(vector), row] = vector
        self._touch(row)
        return True

    def remove_node(self, name: str) -> None:
        """Forget a node; while pods still say they are on it, its row stays as a placeholder."""
        row = self.rows.get(name)
        if row is None:
            return
        self.records[row] = None
        self.columns.allocatable[:, row] = 0
        self._touch(row)
        self._release(row)

    def add(self, task: TaskFacts) -> None:
        """Count `task` on its node."""
        self._count(self._row(task.node), task.shape, task.status, 1)

    def remove(self, task: TaskFacts) -> None:
        """Take `task` off its node."""
        row = self.rows[task.node]
        self._count(row, task.shape, task.status, -1)
        self._release(row)

    def short_of(self, shape: Shape, node: str) -> list[str]:
        """Names of the resources that `node` lacks for one more pod of `shape`; all of them if the node is unknown."""
        row = self.rows.get(node)
        if row is None or self.records[row] is None:
            return list(shape.request)
        idle = self.columns.allocatable[:, row] - self.columns.used[:, row]
        return [name for name, amount in shape.request.items() if amount > idle[self.dimensions.row(name)]]

    def is_known(self, node: str) -> bool:
        """Whether a node of that name is there."""
        row = self.rows.get(node)
        return row is not None and self.records[row] is not None

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
                self._fit()
            self.rows[name] = row
        return row

    def _release(self, row: int) -> None:
        if self.records[row] is None and self.columns.pod_count[row] == 0:
            del self.rows[self.names[row]]
            self.names[row] = ""
            self._free.append(row)

    def _count(self, row: int, shape: Shape, status: TaskStatus, sign: int) -> None:
        rows = [(self.dimensions.row(name), amount) for name, amount in shape.request.items()]
        self._fit()
        columns = self.columns
        for dimension, amount in rows:
            columns.used[dimension, row] += sign * amount
            if status is TaskStatus.RELEASING:
                columns.releasing[dimension, row] += sign * amount
        columns.non_zero[0, row] += sign * shape.non_zero_cpu
        columns.non_zero[1, row] += sign * shape.non_zero_memory
        columns.pod_count[row] += sign
        for port in shape.ports:
            ports = self.ports.setdefault(row, Counter())
            ports[port] += sign
            if not ports[port]:
                del ports[port]

    def _fit(self) -> None:
        dimensions, room = self.columns.allocatable.shape
        if len(self.dimensions) > dimensions or len(self.names) > room:
            room = max(room, 2 * len(self.names) if len(self.names) > room else room)
            self.columns = self.columns.resized(len(self.dimensions), room)
            self.stamps = np.pad(self.stamps, (0, room - len(self.stamps)))

    def _touch(self, row: int) -> None:
        self._clock += 1
        self.stamps[row] = self._clock


def _allocatable(node: records.Node) -> dict[str, int]:
    amounts = amounts_of(node.status.allocatable)
    for name, key in (("cpu", keys.OVERSUBSCRIPTION_CPU), ("memory", keys.OVERSUBSCRIPTION_MEMORY)):
        text = node.metadata.annotations.get(key)
        if text:
            amounts[name] = amounts.get(name, 0) + int(float(text))
    return amounts


def _same(old: records.Node, new: records.Node) -> bool:
    """Whether nothing changed that a session looks at: a heartbeat must not start one."""
    a, b = old.metadata, new.metadata
    return (
        old.status.allocatable == new.status.allocatable
        and a.labels == b.labels
        and a.annotations == b.annotations
        and old.spec == new.spec
        and old.status.images == new.status.images
    )
