"""A queue of jobs or queues by key.

The key counts as it was when the item was put in: who changed must be taken out and put back. Where an item's key may grow
because of others, as a queue's does with what its parent's other children take, `is_live` looks again before it is taken out.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["Heap"]

T = TypeVar("T")


class Heap(Generic[T]):
    """Smallest key first."""

    def __init__(self, key: Callable[[T], tuple[Any, ...]], *, is_live: bool = False) -> None:
        self._key = key
        self._is_live = is_live
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
        while self._is_live:
            key, pushed, item = self._items[0]
            now = self._key(item)
            if not key < now:
                break
            heapq.heapreplace(self._items, (now, pushed, item))
        return heapq.heappop(self._items)[2]
