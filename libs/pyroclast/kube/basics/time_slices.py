"""Long work on the event loop in short slices, so that watches, Lease renewals and health checks stay in time."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

TURN_SECONDS: Final = 0.005
"""The longest slice, in seconds: a tenth of the time for which the loop may be blocked."""

_Waiting = deque[asyncio.Future[None]]
_waiting: WeakKeyDictionary[asyncio.AbstractEventLoop, _Waiting] = WeakKeyDictionary()
"""The tasks that wait for a slice, in the order of their calls. While a task waits, `_call_next` is scheduled."""


class Turn:
    """A slice of the event loop for one piece of work. Between two steps, the work runs `if turn.is_over: await turn.next()`."""

    def __init__(self) -> None:
        self._clock = time.perf_counter  # measures real time, even if the loop runs in virtual time
        self.begin()

    def begin(self) -> None:
        """Begin a new slice of time now."""
        self._until = self._clock() + TURN_SECONDS

    @property
    def is_over(self) -> bool:
        """Whether the slice has ended and other tasks should run."""
        return self._clock() >= self._until

    async def next(self) -> None:
        """Let other tasks run, then begin another slice.

        Of all tasks that work in slices, only one runs between two polls of the event loop.
        """
        loop = asyncio.get_running_loop()
        waiting = _waiting.setdefault(loop, deque())
        called = loop.create_future()
        waiting.append(called)
        if len(waiting) == 1:
            loop.call_soon(_call_next, loop, waiting)
        await called
        self.begin()


async def in_turns(items: Iterable[T]) -> AsyncGenerator[T]:
    """Yield each of `items`. Other tasks may run between two items; they must not change the collection behind `items`."""
    turn = Turn()
    for item in items:
        yield item
        if turn.is_over:
            await turn.next()


def _call_next(loop: asyncio.AbstractEventLoop, waiting: _Waiting) -> None:
    while waiting and waiting[0].done():  # the waiting task was cancelled
        waiting.popleft()
    if waiting:
        waiting.popleft().set_result(None)
    if waiting:
        loop.call_soon(_call_next, loop, waiting)
