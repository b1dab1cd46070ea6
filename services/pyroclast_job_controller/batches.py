"""Doing the same to many objects at once, carefully at first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from pyroclast.kube.errors import KubeError

__all__ = ["FIRST_BATCH", "at_once", "slow_start"]

FIRST_BATCH: Final = 8
"""How many are tried before it is known that it works; a quota that is used up is then asked so many times, not a thousand."""

T = TypeVar("T")


async def at_once(items: Sequence[T], action: Callable[[T], Awaitable[None]]) -> list[KubeError]:
    """Run `action` for all items at the same time; the errors of the API server, in order.

    The client bounds how many requests are under way.
    """
    results = await asyncio.gather(*map(action, items), return_exceptions=True)
    errors: list[KubeError] = []
    for result in results:
        if isinstance(result, KubeError):
            errors.append(result)
        elif isinstance(result, BaseException):
            raise result
    return errors


async def slow_start(items: Sequence[T], action: Callable[[T], Awaitable[None]], *, first: int = FIRST_BATCH) -> list[KubeError]:
    """Run `action` for all items in batches that double as long as all goes well; stop after the first batch with an error.

    `first`: the size of the first batch.
    """
    done, size = 0, first
    while done < len(items):
        errors = await at_once(items[done : done + size], action)
        if errors:
            return errors
        done, size = done + size, size * 2
    return []
