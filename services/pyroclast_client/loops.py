"""The event loop of the synchronous client: one daemon thread for each process, started on first use."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

_lock = threading.Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}


def background_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of this process. A forked child does not inherit the thread, so it starts its own."""
    with _lock:
        loop = _loops.get(os.getpid())
        if loop is None:
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="pyroclast-client", daemon=True).start()
            _loops[os.getpid()] = loop
        return loop


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` in the background loop and wait for its result. The caller's thread may have a running loop of its own.

    An interrupt cancels `work`, but not the Job for which it waits.
    """
    future = asyncio.run_coroutine_threadsafe(work, background_loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


async def end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they have released their connections. Their exceptions were handled before."""
    every = list(tasks)
    for task in every:
        task.cancel()
    await asyncio.gather(*every, return_exceptions=True)


def iterated(stream: AsyncGenerator[T]) -> Iterator[T]:
    """Yield the items of an asynchronous stream."""
    try:
        while True:
            try:
                yield run(_next(stream))
            except StopAsyncIteration:
                return
    finally:
        run(stream.aclose())


async def _next(stream: AsyncGenerator[T]) -> T:
    return await anext(stream)


def _renew_lock() -> None:
    global _lock  # noqa: PLW0603 - another thread of the parent may have held the lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)
