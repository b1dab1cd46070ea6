"""Reads that several callers need at about the same time: the API server is asked once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class _Entry(Generic[V]):
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0
    answers: list[V] = field(default_factory=list)
    asked: float = float("-inf")


class SharedReads(Generic[K, V]):
    """Responses by key, each of which is valid for `seconds` after its request; older responses are dropped.

    Args:
        ask: reads the value of a key.
        clock: returns seconds of any clock.
        seconds: the greatest age of a response.
    """

    def __init__(self, ask: Callable[[K], Awaitable[V]], clock: Callable[[], float], seconds: float) -> None:
        self._ask, self._clock, self._seconds = ask, clock, seconds
        self._entries: dict[K, _Entry[V]] = {}

    async def get(self, key: K) -> V:
        """Return the value of `key`: a response that is still valid, else the new response for which all callers wait.

        Raises:
            KubeError: the error of the API server; the next caller tries again.
        """
        self._forget_old()
        entry = self._entries.setdefault(key, _Entry())
        entry.users += 1
        try:
            async with entry.lock:
                if not entry.answers or self._clock() >= entry.asked + self._seconds:
                    entry.answers.clear()
                    entry.asked = self._clock()
                    entry.answers.append(await self._ask(key))
                return entry.answers[0]
        finally:
            entry.users -= 1

    def _forget_old(self) -> None:
        oldest = self._clock() - self._seconds
        for key in [key for key, entry in self._entries.items() if not entry.users and entry.asked <= oldest]:
            del self._entries[key]
