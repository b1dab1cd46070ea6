"""Tables by the UID of pods or the key of jobs, from which what has gone is dropped: names never stop changing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

__all__ = ["Pruner"]

K = TypeVar("K")
V = TypeVar("V")
_FEW: Final = 1024


@dataclass(slots=True)
class Pruner:
    """Looks through one table each time that it has doubled, so that an entry costs the same however many there are."""

    limit: int = _FEW

    def prune(self, table: dict[K, V], is_there: Callable[[K], bool]) -> None:
        """Drop the entries of `table` for whose key `is_there` does not hold, if it has grown enough."""
        if len(table) <= self.limit:
            return
        for key in [key for key in table if not is_there(key)]:
            del table[key]
        self.limit = max(_FEW, 2 * len(table))
