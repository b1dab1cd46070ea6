"""`Executor`: the executor of `concurrent.futures` whose workers are pods."""

from __future__ import annotations

import asyncio
import concurrent.futures
import itertools
import pickle
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

import cloudpickle

from pyroclast_client import defaults, errors
from pyroclast_client.documents import fresh_name
from pyroclast_client.loops import background_loop, run
from pyroclast_client.options import SweepCall, TaskOptions, options_of
from pyroclast_client.payload import Arguments
from pyroclast_client.results import Outcome, Started

if TYPE_CHECKING:
    from pyroclast_client.handles import AsyncJob
    from pyroclast_client.synchronous import Client


P = ParamSpec("P")
T = TypeVar("T")

GATHER_SECONDS: Final = 0.05  # seconds within which submissions are collected into one Job
LONGEST_GATHER_SECONDS: Final = 1.0
MOST_CALLS: Final = 1000
TTL_SECONDS: Final = 3600
STEM: Final = "executor"


@dataclass(slots=True)
class _Item:
    """A call whose result is not known yet."""

    future: concurrent.futures.Future[Any]
    blob: bytes


@dataclass(slots=True)
class _Batch:
    """The calls of one Job."""

    items: list[_Item]
    job: AsyncJob[Any] | None = None
    left: set[int] = field(default_factory=set)


class Executor(concurrent.futures.Executor):
    """Runs calls in pods. Calls that are submitted within 50 ms become one Job. A failed call in that Job never ends the others.

    A future raises the exception that its function raised, with the remote traceback as the cause.

    Args:
        client: the client to use. The default client by default.
        options: options of `task`. The Jobs are deleted an hour after their end, unless `ttl=` is given.
    """

    def __init__(self, client: Client | None = None, **options: Any) -> None:  # noqa: ANN401 - the options of `task`
        self._client = (client or defaults.client()).asynchronous
        self._options: TaskOptions = options_of({"ttl": TTL_SECONDS, **options})
        self._lock = threading.Lock()
        self._waiting: list[_Item] = []
        self._first = self._latest = 0.0
        self._batches: set[asyncio.Task[None]] = set()
        self._open: list[_Batch] = []
        self._is_shut = False
        self._is_gathering = False
        self._told: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._all_done = threading.Condition(self._lock)
        self._unfinished = 0
        self._teller: threading.Thread | None = None

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> concurrent.futures.Future[T]:
        """Run a call in a pod. Return the future of its result."""
        future: concurrent.futures.Future[T] = concurrent.futures.Future()
        with self._lock:
            if self._is_shut:
                raise RuntimeError("cannot schedule new futures after shutdown")
        try:
            blob = cloudpickle.dumps((fn, args, kwargs))
        except Exception as error:  # noqa: BLE001 - the future has the exception, as for a process pool
            future.set_exception(error)
            return future
        with self._lock:
            self._unfinished += 1
            self._waiting.append(_Item(future, blob))
            self._latest = time.monotonic()
            if self._teller is None:
                self._teller = threading.Thread(target=self._tell, name="pyroclast-executor", daemon=True)
                self._teller.start()
            if not self._is_gathering:
                self._is_gathering, self._first = True, self._latest
                background_loop().call_soon_threadsafe(self._begin)
        return future

    def map(
        self, fn: Callable[..., T], *iterables: Iterable[Any], timeout: float | None = None, chunksize: int = 1
    ) -> Iterator[T]:
        """Return the results of the calls with these items, in order. `chunksize` items run in one pod."""
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        chunks = _chunks(zip(*iterables, strict=False), chunksize)
        results = super().map(partial(_by_value(), fn), chunks, timeout=timeout)
        return itertools.chain.from_iterable(results)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more calls. With `cancel_futures`, calls without a pod are cancelled and the running Jobs are deleted."""
        with self._lock:
            self._is_shut = True
            open_now = list(self._open) if cancel_futures else []
            waiting = list(self._waiting) if cancel_futures else []
        for item in (*waiting, *(item for batch in open_now for item in batch.items)):
            item.future.cancel()
        if cancel_futures:
            run(self._end(open_now))
        if wait:
            with self._lock:
                while self._unfinished:
                    self._all_done.wait()
                teller = self._teller
            self._told.put(None)
            if teller is not None and teller is not threading.current_thread():
                teller.join()

    # The following methods run in the event loop.

    def _begin(self) -> None:
        task = asyncio.get_running_loop().create_task(self._gather())
        self._batches.add(task)
        task.add_done_callback(self._batches.discard)

    async def _gather(self) -> None:
        """Wait until submissions pause, then create a Job for the collected calls."""
        while True:
            await asyncio.sleep(GATHER_SECONDS)
            with self._lock:
                now = time.monotonic()
                is_quiet = now - self._latest >= GATHER_SECONDS or now - self._first >= LONGEST_GATHER_SECONDS
                if not is_quiet and len(self._waiting) < MOST_CALLS:
                    continue
                taken, self._waiting = self._waiting[:MOST_CALLS], self._waiting[MOST_CALLS:]
                self._is_gathering = bool(self._waiting)
                batch = _Batch(taken, left=set(range(len(taken))))
                self._open.append(batch)
                if self._is_gathering:
                    self._begin()
            break
        for index, item in enumerate(batch.items):
            if item.future.cancelled():
                self._drop(batch, index)
        try:
            await self._follow(batch)
        except Exception as error:  # noqa: BLE001 - the futures have the exception
            for index in sorted(batch.left):
                self._finish(batch, Outcome(index), error)
        finally:
            with self._lock:
                self._open.remove(batch)

    async def _follow(self, batch: _Batch) -> None:
        indices = sorted(batch.left)
        if not indices:
            return
        arguments = tuple(Arguments((batch.items[index].blob,)) for index in indices)
        call: SweepCall[Any] = SweepCall(_unpickled_call(), arguments, self._options, STEM)
        batch.job = await self._client.submit_part(call, range(len(arguments)), fresh_name(STEM))
        if all(item.future.cancelled() for item in batch.items):
            await self._end([batch])
        async with aclosing(batch.job.progress()) as steps:
            async for step in steps:
                index = indices[step.index]
                if isinstance(step, Started):
                    self._told.put(partial(_run, batch.items[index].future))
                elif index in batch.left:
                    self._finish(batch, Outcome(index, step.value, step.error), step.error)

    async def _end(self, batches: list[_Batch]) -> None:
        """Delete the Jobs of batches and cancel their calls."""
        for batch in batches:
            if batch.job is not None:
                await batch.job.delete()
            for index in sorted(batch.left):
                self._drop(batch, index)

    def _drop(self, batch: _Batch, index: int) -> None:
        batch.left.discard(index)
        future = batch.items[index].future

        def tell() -> None:
            if not future.cancel() and not future.done():
                future.set_exception(concurrent.futures.CancelledError())
            elif future.cancelled():
                future.set_running_or_notify_cancel()

        self._told.put(tell)
        self._told.put(self._count)

    def _finish(self, batch: _Batch, outcome: Outcome, error: Exception | None) -> None:
        batch.left.discard(outcome.index)
        future = batch.items[outcome.index].future
        self._told.put(partial(_settle, future, outcome.value, error))
        self._told.put(self._count)

    # The following methods run in the thread that sets results.

    def _tell(self) -> None:
        """Set results in a separate thread: their callbacks may use the client, for which the event loop must not block."""
        while (tell := self._told.get()) is not None:
            tell()

    def _count(self) -> None:
        with self._lock:
            self._unfinished -= 1
            self._all_done.notify_all()


def _run(future: concurrent.futures.Future[Any]) -> None:
    if not future.running() and not future.done():
        future.set_running_or_notify_cancel()


def _settle(future: concurrent.futures.Future[Any], value: object, error: Exception | None) -> None:
    if future.done() or (not future.running() and not future.set_running_or_notify_cancel()):
        return
    if error is None:
        future.set_result(value)
        return
    raised = error.__cause__
    if isinstance(error, errors.TaskError) and raised is not None:
        raised.__cause__, error.__cause__ = error, None
        future.set_exception(raised)
    else:
        future.set_exception(error)


def _chunks(items: Iterable[tuple[Any, ...]], size: int) -> Iterator[list[tuple[Any, ...]]]:
    iterator = iter(items)
    while chunk := list(itertools.islice(iterator, size)):
        yield chunk


def _by_value() -> Callable[[Callable[..., T], list[tuple[Any, ...]]], list[T]]:
    """Return the function that runs a chunk. A nested function is pickled by value, because pods do not have this module."""

    def chunk(function: Callable[..., T], items: list[tuple[Any, ...]]) -> list[T]:
        return [function(*item) for item in items]

    return chunk


def _unpickled_call() -> Callable[[bytes], Any]:
    """Return the function that unpickles and runs a call in its pod. For the nested function see `_by_value`."""
    loads = pickle.loads

    def call(blob: bytes) -> Any:  # noqa: ANN401 - whatever the function returns
        function, args, kwargs = loads(blob)
        return function(*args, **kwargs)

    return call
