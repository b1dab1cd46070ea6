"""What is kept in a queue for pods that it has let in and that have no place yet."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pyroclast_scheduler.model.node_columns import Floats
from pyroclast_scheduler.model.shapes import Shape
from pyroclast_scheduler.session.session import Session

__all__ = ["LetIn", "let_in"]


class LetIn:
    """Sums of the requests of those pods, in all and by shape: vectors over `size` dimensions."""

    def __init__(self, size: int) -> None:
        self._sum: Floats = np.zeros(size)
        self._by_shape: dict[int, Floats] = {}

    def add(self, shape: Shape, amount: Floats) -> None:
        """So much more is kept for pods of `shape`."""
        self._sum = self._sum + amount
        self._by_shape[id(shape)] = self._by_shape.get(id(shape), np.zeros_like(amount)) + amount

    def placed(self, shape: Shape, amount: Floats) -> None:
        """Pods of `shape` that ask for `amount` got their places, or lost them again where it is negative."""
        if id(shape) in self._by_shape:
            self.add(shape, -amount)

    def of_others(self, shape: Shape) -> Floats:
        """What is kept for pods of other shapes."""
        own = self._by_shape.get(id(shape))
        return self._sum if own is None else self._sum - own


def let_in(session: Session, rows: Mapping[str, int]) -> dict[int, LetIn]:
    """By row of the queue, what is kept for pods that asked for its gate, have lost it, and wait for a place."""
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
