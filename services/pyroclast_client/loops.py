"""The event loop of the synchronous client: one daemon thread for each process, started on first use."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

MOST_TRIES = 200
TRY_SECONDS = 0.01

_lock = threading.Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}
_threads: dict[int, threading.Thread] = {}


def background_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of this process. A forked child does not inherit the thread, so it starts its own."""
    with _lock:
        loop = _loops.get(os.getpid())
        if loop is None:
            loop = asyncio.new_event_loop()
            thread = threading.Thread(target=loop.run_forever, name="pyroclast-client", daemon=True)
            thread.start()
            _loops[os.getpid()], _threads[os.getpid()] = loop, thread
        return loop


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` in the background loop and wait for its result. The caller's thread may have a running loop of its own.

    An interrupt cancels `work`, but not the Job for which it waits. Raises RuntimeError in the thread of the background loop,
    which would wait for itself for ever.
    """
    loop = background_loop()
    if threading.current_thread() is _threads[os.getpid()]:
        work.close()
        raise RuntimeError("the synchronous client is used in its own event loop; use `pc.AsyncClient` there, or another thread")
    future = asyncio.run_coroutine_threadsafe(work, loop)
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
        run(_closed(stream))


async def _closed(stream: AsyncGenerator[T]) -> None:
    """Close a stream, also while the item before an interrupt is being cancelled."""
    for _ in range(MOST_TRIES):
        try:
            await stream.aclose()
        except RuntimeError:  # it is still running
            await asyncio.sleep(TRY_SECONDS)
        else:
            return


async def _next(stream: AsyncGenerator[T]) -> T:
    return await anext(stream)


def _renew_lock() -> None:
    global _lock  # noqa: PLW0603 - another thread of the parent may have held the lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)
