"""The process of a service: supervised tasks, stop signals, delays of its event loop, and garbage collection.

Each task has an owner, and the unexpected end of a task ends the process. The collector does not track the records of informers,
which cannot be part of a reference cycle. The objects loaded at the start are never scanned again; `pyroclast.lean` sets how
rarely other objects are scanned.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

import structlog

log = structlog.get_logger()


@contextmanager
def stop_requested() -> Iterator[asyncio.Future[None]]:
    """Yield a future that resolves at the first SIGTERM or SIGINT; a second signal ends the process at once.

    Only for the main thread. At the end of the block, the previous signal handlers are restored.
    """
    loop = asyncio.get_running_loop()
    asked: asyncio.Future[None] = loop.create_future()
    seen = False

    def resolve() -> None:
        if not asked.done():
            asked.set_result(None)

    def handle(_number: int, _frame: FrameType | None) -> None:
        nonlocal seen
        if seen:
            os._exit(1)
        seen = True
        loop.call_soon_threadsafe(resolve)

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def clean_up() -> None:
    """Free the garbage of loading the program. Call this before the event loop starts, while there is little to scan."""
    gc.collect()


def freeze_loaded() -> None:
    """Exempt all present objects from later collections. Call this when the first lists are complete.

    Freezing takes no time. A full collection of these objects would block the loop longer than anything else.
    """
    gc.freeze()


PERIOD_SECONDS: Final = 0.02
"""The length of a probe. Shorter blocks are not seen, and longer ones are underestimated by at most this; probing costs 0.1 % of
a core.
"""


async def measure_lag(observe: Callable[[float, float], None]) -> None:
    """Call `observe(late, held)` after each of a series of short sleeps, until cancelled.

    `late`: by how many seconds the sleep was too long. `held`: for how many of these seconds, at most, this process itself used
    the CPU, instead of waiting for a core.
    """
    loop = asyncio.get_running_loop()
    while True:
        due, used = loop.time() + PERIOD_SECONDS, time.process_time()
        await asyncio.sleep(PERIOD_SECONDS)
        late = max(0.0, loop.time() - due)
        observe(late, min(late, time.process_time() - used))


class TaskDied(Exception):
    """A task ended that should run as long as the process. Its exception, if there was one, is the `__cause__`."""


class Supervisor:
    """Owns tasks. `died` resolves when a task ends unexpectedly."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], str] = {}
        self._may_return: set[asyncio.Task[None]] = set()
        self._stopping = False
        self.died: asyncio.Future[TaskDied] = asyncio.get_running_loop().create_future()

    def spawn(self, name: str, coroutine: Coroutine[Any, Any, None], *, may_return: bool = False) -> asyncio.Task[None]:
        """Run `coroutine` until the supervisor stops. With `may_return` the task may end by itself, but not raise."""
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks[task] = name
        if may_return:
            self._may_return.add(task)
        task.add_done_callback(self._ended)
        return task

    async def stop(self, seconds: float) -> list[str]:
        """Cancel all tasks one after the other, the newest first; return the names of the tasks that did not end in time."""
        self._stopping = True
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        left = []
        for task, name in reversed(list(self._tasks.items())):
            task.cancel()
            await asyncio.wait([task], timeout=max(0.0, deadline - loop.time()))
            if not task.done():
                left.append(name)
        return left

    def _ended(self, task: asyncio.Task[None]) -> None:
        name = self._tasks.pop(task)
        error = None if task.cancelled() else task.exception()
        if self._stopping:
            if error is not None:
                log.warning("task.failed_while_stopping", task=name, error=repr(error))
            return
        if error is None and task in self._may_return and not task.cancelled():
            return
        if not self.died.done():
            died = TaskDied(f"{name} {'ended' if error is None else f'died: {error!r}'}")
            died.__cause__ = error
            self.died.set_result(died)
