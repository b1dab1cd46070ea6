"""What is to be written, and when.

A value must have stood for a while before it is worth a write, and writes of one key keep a distance.

Pure: time is a parameter.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Settling"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(slots=True)
class _Wish(Generic[V]):
    value: V
    mark: object
    due: float
    earliest: float


@dataclass(slots=True)
class _Pace:
    last: float
    gap: float


class Settling(Generic[K, V]):
    """Wishes by key. Seconds throughout.

    Args:
        shortest: between two writes of one key …
        longest: … doubling up to this while the key keeps changing, and forgotten when it has been quiet for twice as long.
    """

    def __init__(self, *, shortest: float = 0.2, longest: float = 2.0) -> None:
        self._shortest = shortest
        self._longest = longest
        self._wishes: dict[K, _Wish[V]] = {}
        self._paces: dict[K, _Pace] = {}
        self._under_way: set[K] = set()

    def __len__(self) -> int:
        return len(self._wishes)

    def wish(self, key: K, value: V, now: float, *, hold: float = 0.0, mark: object = None, is_urgent: bool = False) -> None:
        """Let `value` be written for `key` once it has stood for `hold`; a wish with an equal `mark` keeps the time it began.

        What is urgent keeps only the shortest distance to the last write.
        """
        wish = self._wishes.get(key)
        if wish is not None and wish.mark == mark:
            wish.value = value
            wish.due = max(wish.earliest, min(wish.due, now + hold))
            return
        pace = self._paces.get(key)
        earliest = now if pace is None else pace.last + (self._shortest if is_urgent else pace.gap)
        self._wishes[key] = _Wish(value, mark, max(now + hold, earliest), earliest)

    def begin(self, key: K) -> None:
        """A write of `key` is under way: nothing is due for it until `end`, so that none overtakes another."""
        self._under_way.add(key)

    def end(self, key: K) -> None:
        """The write of `key` was answered."""
        self._under_way.discard(key)

    def drop(self, key: K) -> None:
        """Forget the wish for `key`: what is there is what should be."""
        self._wishes.pop(key, None)

    def keys(self) -> list[K]:
        """Keys with a wish."""
        return list(self._wishes)

    def due(self, now: float) -> list[tuple[K, V]]:
        """Take out what is to be written now."""
        ready = [(key, wish.value) for key, wish in self._wishes.items() if wish.due <= now and key not in self._under_way]
        for key, _ in ready:
            del self._wishes[key]
            pace = self._paces.get(key)
            busy = pace is not None and now - pace.last < 2 * self._longest
            gap = min(2 * pace.gap, self._longest) if pace is not None and busy else self._shortest
            self._paces[key] = _Pace(now, gap)
        return ready

    def next_due(self) -> float | None:
        """When the next wish is due; None if there is none, or only such as wait for `end`."""
        return min((wish.due for key, wish in self._wishes.items() if key not in self._under_way), default=None)

    def forget_quiet(self, now: float) -> None:
        """Forget the pace of keys that have been quiet for long."""
        self._paces = {key: pace for key, pace in self._paces.items() if now - pace.last < 2 * self._longest}
