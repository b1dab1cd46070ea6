"""Many equal requests: reads that several callers share, and actions that begin in small batches."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from pyroclast.kube.basics.errors import KubeError

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


@dataclass(slots=True)
class _Entry(Generic[V]):
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0
    answers: list[V] = field(default_factory=list)
    asked: float = float("-inf")


class SharedReads(Generic[K, V]):
    """Responses by key, each of which is valid for `seconds` after its request; older responses are dropped."""

    def __init__(self, ask: Callable[[K], Awaitable[V]], clock: Callable[[], float], seconds: float) -> None:
        self._ask, self._clock, self._seconds = ask, clock, seconds
        self._entries: dict[K, _Entry[V]] = {}

    async def get(self, key: K) -> V:
        """Return the value of `key`: a response that is still valid, else the new response for which all callers wait."""
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


FIRST_BATCH: Final = 8
"""Size of the first batch. If the action fails, for example because a quota is used up, only so many requests are refused."""

LARGEST_BATCH: Final = 512
"""The largest batch, and so the most requests after a fault before the fault is noticed."""

MOST_AT_ONCE: Final = 64
"""Actions at a time: more than a client sends at a time, so that the client is never idle."""


async def at_once(items: Sequence[T], action: Callable[[T], Awaitable[None]]) -> list[KubeError]:
    """Run `action` for all items, `MOST_AT_ONCE` at a time; return the errors of the API server, in the order of the items.

    Other items wait in this function and not in the client's queue, where they would delay the requests of other Jobs.
    """
    waiting = iter(enumerate(items))
    errors: dict[int, KubeError] = {}

    async def work() -> None:
        for number, item in waiting:
            try:
                await action(item)
            except KubeError as error:
                errors[number] = error

    results = await asyncio.gather(*(work() for _ in range(min(len(items), MOST_AT_ONCE))), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [errors[number] for number in sorted(errors)]


async def slow_start(items: Sequence[T], action: Callable[[T], Awaitable[None]], *, first: int = FIRST_BATCH) -> list[KubeError]:
    """Run `action` for all items in batches that double while there are no errors. Stop after the first batch with an error.

    `first`: the size of the first batch. No batch is larger than `LARGEST_BATCH`.
    """
    done, size = 0, first
    while done < len(items):
        errors = await at_once(items[done : done + size], action)
        if errors:
            return errors
        done, size = done + size, min(size * 2, LARGEST_BATCH)
    return []
