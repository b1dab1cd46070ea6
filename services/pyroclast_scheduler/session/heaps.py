"""A priority queue of jobs or queues.

A key is calculated when its item is pushed, so an item whose key changes must be popped and pushed again. With `is_live`, keys
that have grown in the meantime are calculated again before an item is popped. The key of a queue grows, for instance, when its
siblings are allocated more.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Heap(Generic[T]):
    """A heap with the smallest key first."""

    def __init__(self, key: Callable[[T], tuple[Any, ...]], *, is_live: bool = False) -> None:
        self._key = key
        self._is_live = is_live
        self._items: list[tuple[tuple[Any, ...], int, T]] = []
        self._pushed = 0

    def __len__(self) -> int:
        return len(self._items)

    def push(self, item: T) -> None:
        """Add `item`."""
        self._pushed += 1
        heapq.heappush(self._items, (self._key(item), self._pushed, item))

    def pop(self) -> T:
        """Remove and return the item with the smallest key."""
        while self._is_live:
            key, pushed, item = self._items[0]
            now = self._key(item)
            if not key < now:
                break
            heapq.heapreplace(self._items, (now, pushed, item))
        return heapq.heappop(self._items)[2]
