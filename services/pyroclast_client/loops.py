"""The event loop of the synchronous client: one daemon thread for each process, started on first use."""

from __future__ import annotations

import asyncio
import functools
import os
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

H = TypeVar("H")
P = ParamSpec("P")
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


async def first_of(*works: Coroutine[Any, Any, T]) -> T:
    """Return the result of the first of `works` that ends. The others are cancelled, and have ended."""
    tasks = [asyncio.get_running_loop().create_task(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(task for task in tasks if task.done()).result()
    finally:
        await end(tasks)


class Synchronous(Generic[H]):
    """A handle whose methods are those of the asynchronous `handle` without `await`."""

    def __init__(self, handle: H) -> None:
        self.handle = handle

    def __repr__(self) -> str:
        return repr(self.handle).replace(type(self.handle).__name__, type(self).__name__, 1)


def awaited(method: Callable[Concatenate[H, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Synchronous[H], P], T]:
    """Return a method of an asynchronous handle as a method of the synchronous one, which waits for its result."""

    @functools.wraps(method)
    def waiting(face: Synchronous[H], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run(method(face.handle, *args, **kwargs))

    return waiting


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
