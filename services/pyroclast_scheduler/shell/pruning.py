"""Removes deleted pods and jobs from tables by UID or key, whose keys never stop changing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

K = TypeVar("K")
V = TypeVar("V")
_FEW: Final = 1024


@dataclass(slots=True)
class Pruner:
    """Checks one table each time that its size has doubled, so that the cost per entry is constant."""

    limit: int = _FEW

    def prune(self, table: dict[K, V], is_there: Callable[[K], bool]) -> None:
        """Remove the entries of `table` whose key does not exist by `is_there`, if the table is large enough."""
        if len(table) <= self.limit:
            return
        for key in [key for key in table if not is_there(key)]:
            del table[key]
        self.limit = max(_FEW, 2 * len(table))
