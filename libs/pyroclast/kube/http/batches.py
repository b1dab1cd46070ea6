"""Runs the same action for many objects, first in small batches."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from pyroclast.kube.basics.errors import KubeError

FIRST_BATCH: Final = 8
"""Size of the first batch. If the action fails, for example because a quota is used up, only so many requests are refused."""

LARGEST_BATCH: Final = 512
"""The largest batch, and so the most requests after a fault before the fault is noticed."""

MOST_AT_ONCE: Final = 64
"""Actions at a time: more than a client sends at a time, so that the client is never idle."""

T = TypeVar("T")


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
