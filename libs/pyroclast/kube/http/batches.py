"""Doing the same to many objects at once, carefully at first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from pyroclast.kube.basics.errors import KubeError

__all__ = ["FIRST_BATCH", "LARGEST_BATCH", "MOST_AT_ONCE", "at_once", "slow_start"]

FIRST_BATCH: Final = 8
"""How many are tried before it is known that it works; a quota that is used up is then asked so many times, not a thousand."""

LARGEST_BATCH: Final = 512
"""How many more are asked for before it is seen that something went wrong."""

MOST_AT_ONCE: Final = 64
"""More than a client sends at the same time, so that it never idles."""

T = TypeVar("T")


async def at_once(items: Sequence[T], action: Callable[[T], Awaitable[None]]) -> list[KubeError]:
    """Run `action` for all items, `MOST_AT_ONCE` at a time; the errors of the API server, in order.

    What waits here does not stand in the queue of the client, where the requests of other Jobs would come after it.
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
    """Run `action` for all items in batches that double as long as all goes well; stop after the first batch with an error.

    `first`: the size of the first batch; none is larger than `LARGEST_BATCH`.
    """
    done, size = 0, first
    while done < len(items):
        errors = await at_once(items[done : done + size], action)
        if errors:
            return errors
        done, size = done + size, min(size * 2, LARGEST_BATCH)
    return []
