"""`Executor`: the executor of `concurrent.futures` whose workers are pods."""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import itertools
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

import cloudpickle

from pyroclast_client import defaults, errors
from pyroclast_client.documents import fresh_name
from pyroclast_client.loops import background_loop, run
from pyroclast_client.options import SweepCall, TaskOptions, function_name, options_of
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
class Item:
    """A call whose result is not known yet: its future, and the pickles of its function and of its arguments."""

    future: concurrent.futures.Future[Any]
    function: bytes
    arguments: bytes
    name: str


@dataclass(slots=True)
class _Batch:
    """The calls of one Job."""

    items: list[Item]
    job: AsyncJob[Any] | None = None
    left: set[int] = field(default_factory=set)


class PodExecutor(concurrent.futures.Executor):
    """The side of an executor that its user sees: futures, and the thread that sets their results.

    The subclass runs in the event loop the calls that it is woken for.

    Args:
        client: the client to use. The default client by default.
        name: the name of the executor.
        options: options of `task`.
    """

    def __init__(self, client: Client | None, name: str, options: Mapping[str, Any]) -> None:
        self.name = name
        self._client = (client or defaults.client()).asynchronous
        self._options: TaskOptions = options_of(options)
        self._lock = threading.Lock()
        self._waiting: collections.deque[Item] = collections.deque()
        self._told: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._all_done = threading.Condition(self._lock)
        self._unfinished = 0
        self._teller: threading.Thread | None = None
        self._is_shut = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> concurrent.futures.Future[T]:
        """Run a call in a pod. Return the future of its result."""
        future: concurrent.futures.Future[T] = concurrent.futures.Future()
        with self._lock:
            if self._is_shut:
                raise RuntimeError("cannot schedule new futures after shutdown")
        try:
            item = Item(future, cloudpickle.dumps(fn), cloudpickle.dumps((args, kwargs)), function_name(fn))
        except Exception as error:  # noqa: BLE001 - the future has the exception, as for a process pool
            future.set_exception(error)
            return future
        with self._lock:
            self._unfinished += 1
            self._waiting.append(item)
            if self._teller is None:
                self._teller = threading.Thread(target=self._tell, name="pyroclast-executor", daemon=True)
                self._teller.start()
            self._wake()
        return future

    def map(
        self, fn: Callable[..., T], *iterables: Iterable[Any], timeout: float | None = None, chunksize: int = 1
    ) -> Iterator[T]:
        """Return the results of the calls with these items, in order. `chunksize` items run in one call."""
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        if chunksize == 1:
            return super().map(fn, *iterables, timeout=timeout)
        chunks = _chunks(zip(*iterables, strict=False), chunksize)
        results = super().map(partial(_by_value(), fn), chunks, timeout=timeout)
        return itertools.chain.from_iterable(results)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more calls. With `cancel_futures`, waiting calls are cancelled and the running Jobs are deleted."""
        with self._lock:
            self._is_shut = True
            waiting = list(self._waiting) if cancel_futures else []
        for item in waiting:
            item.future.cancel()
        self._ended(cancel_futures=cancel_futures)
        if wait:
            with self._lock:
                while self._unfinished:
                    self._all_done.wait()
                teller = self._teller
            self._told.put(None)
            if teller is not None and teller is not threading.current_thread():
                teller.join()

    def _wake(self) -> None:
        """Note, under the lock, that there is a new call."""
        raise NotImplementedError

    def _ended(self, *, cancel_futures: bool) -> None:
        """Note that no more calls come. With `cancel_futures`, end those that run."""
        raise NotImplementedError

    def _settled(self, future: concurrent.futures.Future[Any], value: object, error: Exception | None) -> None:
        """Have the result of a call set, and the call counted."""
        self._told.put(partial(_settle, future, value, error))
        self._told.put(self._count)

    def _cancelled(self, future: concurrent.futures.Future[Any]) -> None:
        """Have a call cancelled, also when it runs already, and counted."""

        def tell() -> None:
            if not future.cancel() and not future.done():
                future.set_exception(concurrent.futures.CancelledError())
            elif future.cancelled():
                future.set_running_or_notify_cancel()

        self._told.put(tell)
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


class Executor(PodExecutor):
    """Runs calls in pods. Calls that are submitted within 50 ms become one Job. A failed call in that Job never ends the others.

    A future raises the exception that its function raised, with the remote traceback as the cause.

    Args:
        max_workers: how many calls run at the same time. All by default.
        client: the client to use. The default client by default.
        name: the name by which `Client.jobs(executor=NAME)` finds the Jobs, also after this program has ended.
        options: options of `task`. The Jobs are deleted an hour after their end, unless `ttl=` is given.
    """

    def __init__(
        self,
        max_workers: int | None = None,
        *,
        client: Client | None = None,
        name: str = STEM,
        **options: Any,  # noqa: ANN401 - the options of `task`
    ) -> None:
        super().__init__(client, name, {"ttl": TTL_SECONDS, **options})
        if max_workers is not None and max_workers < 1:
            raise ValueError("max_workers must be greater than 0")
        self._most = max_workers or self._options.parallel or sys.maxsize
        self._first = self._latest = 0.0
        self._batches: set[asyncio.Task[None]] = set()
        self._open: list[_Batch] = []
        self._is_gathering = False

    def _wake(self) -> None:
        self._latest = time.monotonic()
        if not self._is_gathering:
            self._is_gathering, self._first = True, self._latest
            background_loop().call_soon_threadsafe(self._begin)

    def _ended(self, *, cancel_futures: bool) -> None:
        if cancel_futures:
            with self._lock:
                open_now = list(self._open)
            for item in (item for batch in open_now for item in batch.items):
                item.future.cancel()
            run(self._end(open_now))

    # The following methods run in the event loop.

    def _begin(self) -> None:
        task = asyncio.get_running_loop().create_task(self._gather())
        self._batches.add(task)
        task.add_done_callback(self._batches.discard)

    async def _gather(self) -> None:
        """Wait until submissions pause and `max_workers` allows another call, then create a Job for the collected calls."""
        while True:
            await asyncio.sleep(GATHER_SECONDS)
            with self._lock:
                now = time.monotonic()
                is_quiet = now - self._latest >= GATHER_SECONDS or now - self._first >= LONGEST_GATHER_SECONDS
                room = min(MOST_CALLS, self._most - sum(len(batch.left) for batch in self._open))
                if room <= 0 or (not is_quiet and len(self._waiting) < room):
                    continue
                taken = [self._waiting.popleft() for _ in range(min(room, len(self._waiting)))]
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
        arguments = tuple(Arguments((batch.items[index].function, batch.items[index].arguments)) for index in indices)
        call: SweepCall[Any] = SweepCall(None, arguments, self._options, self.name, self.name)
        batch.job = await self._client.submit_part(call, range(len(arguments)), fresh_name(self.name))
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
        self._cancelled(batch.items[index].future)

    def _finish(self, batch: _Batch, outcome: Outcome, error: Exception | None) -> None:
        batch.left.discard(outcome.index)
        self._settled(batch.items[outcome.index].future, outcome.value, error)


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
