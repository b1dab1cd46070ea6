"""The load of nodes for scores: allocatable and used amounts of some nodes, before and after one more pod."""

from __future__ import annotations

from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.node_columns import Columns, Rows


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
        """Calculate the load.

        `request`, `non_zero`: the requests of 0, 1, 2, … pods, (dimensions, depth + 1, 1) and (2, depth, 1).
        """
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
