"""Lookahead: rows for the next pods of a shape, found together with the rows of the present pods.

Jobs of one pod search for the same shape one after another. While only pods of this search are placed, its further rows stay
valid.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from pyroclast_scheduler.model.node_columns import Bools, Rows

_NONE: Final = np.zeros(0, dtype=np.intp)
_MOST: Final = 1024  # the largest number of pods to look ahead: the cost of a search grows with the number, its gain does not


class Ahead:
    """The nodes, as rows, that were chosen in advance for the next pods of one placement plan.

    A position is a length of the session's log of moves, which every move increases.
    """

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
