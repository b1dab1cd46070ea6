"""The event loop behind the synchronous client: one daemon thread for each process, started on first use."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterable, Iterator
from typing import Any, TypeVar

__all__ = ["background_loop", "end", "iterated", "run"]

T = TypeVar("T")

_lock = threading.Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}


def background_loop() -> asyncio.AbstractEventLoop:
    """The loop of this process. A forked child has no thread of its parent's, so it starts one of its own."""
    with _lock:
        loop = _loops.get(os.getpid())
        if loop is None:
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="pyroclast-client", daemon=True).start()
            _loops[os.getpid()] = loop
        return loop


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` in the background loop and wait for it, also where the caller's thread has a running loop of its own.

    An interrupt cancels the work, not what it waits for.
    """
    future = asyncio.run_coroutine_threadsafe(work, background_loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


async def end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they have let go of their connections; what they raised has been told."""
    every = list(tasks)
    for task in every:
        task.cancel()
    await asyncio.gather(*every, return_exceptions=True)


def iterated(stream: AsyncGenerator[T]) -> Iterator[T]:
    """The items of an asynchronous stream."""
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
    global _lock  # noqa: PLW0603 - another thread of the parent may have held it
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)
