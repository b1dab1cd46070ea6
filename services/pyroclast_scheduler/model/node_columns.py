"""Columns of nodes: arrays of the allocatable and used amounts, with one row per resource and one column per node.

The cache keeps one `Columns` object up to date, and each session works on a copy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pyroclast_scheduler.model.dimensions import Ints

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]  # positions of nodes


@dataclass(slots=True)
class Columns:
    """The allocatable and used amounts of all nodes.

    Idle is allocatable − used and may be negative. Future idle is idle + releasing − pipelined.

    Attributes:
        allocatable: (dimensions, nodes), like `used`, `releasing` and `pipelined`.
        non_zero: (2, nodes), used cpu and memory, where a container without a request counts 100m and 200Mi.
        pod_count: (nodes,), the number of pods on the node or pipelined to it.
        has_shifts: False only while no node has releasing or pipelined pods.
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
        """Return arrays of zeros for that many dimensions and nodes."""
        allocatable, used, releasing, pipelined = np.zeros((4, dimensions, nodes), dtype=np.int64)
        return cls(allocatable, used, releasing, pipelined, np.zeros((2, nodes), dtype=np.int64), np.zeros(nodes, dtype=np.int64))

    @property
    def nodes(self) -> int:
        """The number of nodes, rows of free or deleted nodes included."""
        return len(self.pod_count)

    def resized(self, dimensions: int, nodes: int) -> Columns:
        """Return a copy with room for that many dimensions and nodes, never fewer than now."""
        other = Columns.empty(dimensions, nodes)
        d, n = self.allocatable.shape
        for name in ("allocatable", "used", "releasing", "pipelined"):
            getattr(other, name)[:d, :n] = getattr(self, name)
        other.non_zero[:, :n] = self.non_zero
        other.pod_count[:n] = self.pod_count
        return other

    def copy(self) -> Columns:
        """Return a copy of all arrays."""
        return Columns(
            self.allocatable.copy(),
            self.used.copy(),
            self.releasing.copy(),
            self.pipelined.copy(),
            self.non_zero.copy(),
            self.pod_count.copy(),
        )

    def free(self, dimension: int, rows: Rows, *, future: bool) -> Ints:
        """Return the free amount of one dimension on `rows`.

        `future`: the future idle amount; otherwise the smaller of the idle and the future idle amount, so that pipelined pods
        keep theirs.
        """
        free: Ints = self.allocatable[dimension].take(rows)
        free -= self.used[dimension].take(rows)
        if not self.has_shifts:
            return free
        later: Ints = free + self.releasing[dimension].take(rows) - self.pipelined[dimension].take(rows)
        return later if future else np.minimum(free, later)

    def idle(self, rows: Ints | slice = slice(None)) -> Ints:
        """Return the idle amounts of the given nodes."""
        return self.allocatable[:, rows] - self.used[:, rows]

    def future_idle(self, rows: Ints | slice = slice(None)) -> Ints:
        """Return the future idle amounts of the given nodes: without the releasing pods, with the pipelined pods."""
        return self.idle(rows) + self.releasing[:, rows] - self.pipelined[:, rows]
