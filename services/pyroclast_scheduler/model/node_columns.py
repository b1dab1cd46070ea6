"""Columns of nodes: what each node has and what is taken of it, one row of each array per resource, one column per node.

A plain value: the cache keeps one up to date, a session works on a copy of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pyroclast_scheduler.model.dimensions import Ints

__all__ = ["Bools", "Columns", "Floats", "Rows"]

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]  # positions of nodes


@dataclass(slots=True)
class Columns:
    """What nodes have and what is taken.

    Idle is allocatable − used and may be negative; what will be idle adds what is being released and takes what is promised.
    `has_shifts` is False only while nothing is being released or promised. Shapes: (dimensions, nodes) for the first four.
    `non_zero`: (2, nodes), cpu and memory, where a container that asks for nothing counts 100m and 200Mi. `pod_count`:
    (nodes,), the number of pods on the node or promised to it.
    """

    allocatable: Ints
    used: Ints
    releasing: Ints
    pipelined: Ints
    non_zero: Ints
    pod_count: Ints
    has_shifts: bool = True

    @classmethod
    def empty(cls, dimensions: int, nodes: int) -> Columns:
        """Columns full of zeros."""
        allocatable, used, releasing, pipelined = np.zeros((4, dimensions, nodes), dtype=np.int64)
        return cls(allocatable, used, releasing, pipelined, np.zeros((2, nodes), dtype=np.int64), np.zeros(nodes, dtype=np.int64))

    @property
    def nodes(self) -> int:
        """Number of columns."""
        return len(self.pod_count)

    def resized(self, dimensions: int, nodes: int) -> Columns:
        """A copy with room for that many dimensions and nodes, never fewer than now."""
        other = Columns.empty(dimensions, nodes)
        d, n = self.allocatable.shape
        for name in ("allocatable", "used", "releasing", "pipelined"):
            getattr(other, name)[:d, :n] = getattr(self, name)
        other.non_zero[:, :n] = self.non_zero
        other.pod_count[:n] = self.pod_count
        return other

    def copy(self) -> Columns:
        """An independent copy."""
        return Columns(
            self.allocatable.copy(),
            self.used.copy(),
            self.releasing.copy(),
            self.pipelined.copy(),
            self.non_zero.copy(),
            self.pod_count.copy(),
        )

    def free(self, dimension: int, rows: Rows, *, future: bool) -> Ints:
        """What is free of one dimension on `rows`: now, promises kept, or (`future`) once what is releasing is gone."""
        free: Ints = self.allocatable[dimension].take(rows)
        free -= self.used[dimension].take(rows)
        if not self.has_shifts:
            return free
        later: Ints = free + self.releasing[dimension].take(rows) - self.pipelined[dimension].take(rows)
        return later if future else np.minimum(free, later)

    def idle(self, rows: Ints | slice = slice(None)) -> Ints:
        """What is free now on the given nodes."""
        return self.allocatable[:, rows] - self.used[:, rows]

    def future_idle(self, rows: Ints | slice = slice(None)) -> Ints:
        """What will be free once what is being released is gone and what is promised is taken."""
        return self.idle(rows) + self.releasing[:, rows] - self.pipelined[:, rows]
