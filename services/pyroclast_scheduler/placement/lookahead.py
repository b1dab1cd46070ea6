"""Looking ahead: where the next pods of a shape go, found together with those that were asked for.

Jobs of one pod ask one after another for the same shape. While nothing but what was found is placed, the next answer is known.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from pyroclast_scheduler.model.node_columns import Bools, Rows

__all__ = ["Ahead"]

_NONE: Final = np.zeros(0, dtype=np.intp)
_MOST: Final = 1024  # pods looked ahead for: the cost of a look grows with them, what it saves does not


class Ahead:
    """Rows for the next pods of one plan. A point in time is the length of the session's log, which grows with every move."""

    def __init__(self) -> None:
        self.candidates: Bools = np.zeros(0, dtype=np.bool_)
        self._rows = _NONE
        self._at = -1
        self._more = 0

    def next(self, count: int, at: int) -> Rows:
        """Up to `count` rows, none where nothing is known."""
        return self._rows[:count] if at == self._at else _NONE

    def further(self, count: int, at: int) -> int:
        """How many pods to look for when `count` are asked for: more each time that what was known was used up."""
        self._more = min(_MOST, max(2 * self._more, count)) if at == self._at else 0
        self._rows, self._at = _NONE, at
        return count + self._more

    def keep(self, rows: Rows, candidates: Bools, at: int) -> None:
        """Know that the next pods go to `rows`, of all `candidates`."""
        self._rows, self.candidates, self._at = rows, candidates, at

    def placed(self, rows: Rows, at: int) -> None:
        """Pods of the plan were placed on `rows`; `at`: after it."""
        if at == self._at + 1 and (not len(self._rows) or np.array_equal(rows, self._rows[: len(rows)])):
            self._rows, self._at = self._rows[len(rows) :], at
        else:
            self._rows, self._at = _NONE, -1
