"""Long work on the event loop in short pieces, so that watches, Leases and health keep their pace."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

__all__ = ["Turn", "in_turns"]

T = TypeVar("T")

TURN_SECONDS: Final = 0.005
"""A tenth of what the loop may be held for."""

_Waiting = deque[asyncio.Future[None]]
_waiting: WeakKeyDictionary[asyncio.AbstractEventLoop, _Waiting] = WeakKeyDictionary()
"""Who waits for a turn, first come, first served; while somebody does, `_call_next` is due."""


class Turn:
    """How long one piece of work may have the event loop: asked between two steps, `if turn.is_over: await turn.next()`."""

    def __init__(self) -> None:
        self._clock = time.perf_counter  # of the real time that the work takes, whatever the loop counts
        self.begin()

    def begin(self) -> None:
        """It begins now: until here somebody else had the loop."""
        self._until = self._clock() + TURN_SECONDS

    @property
    def is_over(self) -> bool:
        """Whether others should have a turn."""
        return self._clock() >= self._until

    async def next(self) -> None:
        """Let others, and begin another: between two looks of the loop at what came in, only one has a turn."""
        loop = asyncio.get_running_loop()
        waiting = _waiting.setdefault(loop, deque())
        called = loop.create_future()
        waiting.append(called)
        if len(waiting) == 1:
            loop.call_soon(_call_next, loop, waiting)
        await called
        self.begin()


async def in_turns(items: Iterable[T]) -> AsyncGenerator[T]:
    """Each of `items` to the last; between two of them others have turns, who may not change what is walked through."""
    turn = Turn()
    for item in items:
        yield item
        if turn.is_over:
            await turn.next()


def _call_next(loop: asyncio.AbstractEventLoop, waiting: _Waiting) -> None:
    while waiting and waiting[0].done():  # its task was cancelled
        waiting.popleft()
    if waiting:
        waiting.popleft().set_result(None)
    if waiting:
        loop.call_soon(_call_next, loop, waiting)
