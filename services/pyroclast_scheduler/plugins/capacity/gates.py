"""Amounts that a queue reserves for pending pods whose queue gate was removed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pyroclast_scheduler.model.node_columns import Floats
from pyroclast_scheduler.model.shapes import Shape
from pyroclast_scheduler.session.plugin_session import PluginSession


class LetIn:
    """The sums of the requests of pods whose queue gate was removed: in all, and by shape. Vectors have `size` dimensions."""

    def __init__(self, size: int) -> None:
        self._sum: Floats = np.zeros(size)
        self._by_shape: dict[int, Floats] = {}

    def add(self, shape: Shape, amount: Floats) -> None:
        """Reserve `amount` more for pods of `shape`."""
        self._sum = self._sum + amount
        self._by_shape[id(shape)] = self._by_shape.get(id(shape), np.zeros_like(amount)) + amount

    def placed(self, shape: Shape, amount: Floats) -> None:
        """Release `amount` after pods of `shape` were placed; a negative amount after the placement was undone."""
        if id(shape) in self._by_shape:
            self.add(shape, -amount)

    def of_others(self, shape: Shape) -> Floats:
        """Return the amounts that are reserved for pods of other shapes."""
        own = self._by_shape.get(id(shape))
        return self._sum if own is None else self._sum - own


def let_in(session: PluginSession, rows: Mapping[str, int]) -> dict[int, LetIn]:
    """Return by row of the queue the amounts that are reserved for pending pods whose queue gate was removed."""
    found: dict[int, LetIn] = {}
    for facts in session.snapshot.let_in:
        row = rows.get(facts.queue)
        if row is None:
            continue
        kept = found.setdefault(row, LetIn(len(session.dimensions)))
        for task in facts.tasks:
            if task.is_let_in:
                kept.add(task.shape, session.dimensions.vector(task.shape.request).astype(np.float64))
    return found
