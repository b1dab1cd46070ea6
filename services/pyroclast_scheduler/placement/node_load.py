"""The load of nodes, as scores look at it: what some nodes have and what is taken of them, before and after one more pod."""

from __future__ import annotations

from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.node_columns import Columns, Rows

__all__ = ["Load"]


class Load:
    """Arrays (dimensions, nodes, depth): the last axis counts pods of the shape that come one after another.

    `rows`: which nodes, an array (nodes, 1). `taken`: what is taken with 0, 1, … such pods, one longer than the others. `used`:
    what is taken before the first, second, … comes. `after`: what is taken once it is there. `non_zero_after`: the same of cpu
    and memory, with what counts for a container that asks for nothing.
    """

    __slots__ = ("_allocatable", "_columns", "after", "non_zero_after", "rows", "taken", "used")

    def __init__(self, columns: Columns, rows: Rows, request: Ints, non_zero: Ints) -> None:
        """`request`, `non_zero`: what 0, 1, 2, … such pods ask for, arrays (dimensions, depth + 1, 1) and (2, depth, 1)."""
        # nodes lie side by side in memory, as there are more of them than pods: the axes change places behind that
        self.taken: Ints = (columns.used.take(rows, axis=1)[:, None, :] + request).transpose(0, 2, 1)
        self.rows: Ints = rows[:, None]
        self.used: Ints = self.taken[:, :, :-1]
        self.after: Ints = self.taken[:, :, 1:]
        self.non_zero_after: Ints = (columns.non_zero.take(rows, axis=1)[:, None, :] + non_zero).transpose(0, 2, 1)
        self._columns = columns
        self._allocatable: Ints | None = None

    @property
    def allocatable(self) -> Ints:
        """What the nodes have, (dimensions, nodes, 1)."""
        if self._allocatable is None:
            self._allocatable = self._columns.allocatable.take(self.rows[:, 0], axis=1)[:, :, None]
        return self._allocatable
