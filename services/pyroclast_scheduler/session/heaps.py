"""A queue of jobs or queues by key.

The key counts as it was when the item was put in: who changed must be taken out and put back.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["Heap"]

T = TypeVar("T")


class Heap(Generic[T]):
    """Smallest key first."""

    def __init__(self, key: Callable[[T], tuple[Any, ...]]) -> None:
        self._key = key
        self._items: list[tuple[tuple[Any, ...], int, T]] = []
        self._pushed = 0

    def __len__(self) -> int:
        return len(self._items)

    def push(self, item: T) -> None:
        """Put `item` in its place."""
        self._pushed += 1
        heapq.heappush(self._items, (self._key(item), self._pushed, item))

    def pop(self) -> T:
        """Take out the first item."""
        return heapq.heappop(self._items)[2]
