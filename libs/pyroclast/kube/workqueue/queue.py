"""A work queue of keys with rate limits, and the workers that reconcile its keys and retry after failures."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

import structlog

from pyroclast.kube.basics.deadline import loop_time
from pyroclast.kube.basics.errors import ApiError, KubeError, is_transient
from pyroclast.kube.basics.observer import SILENT, Observer
from pyroclast.kube.workqueue.rejections import Refusals
from pyroclast.resources.backoff import Backoff

log = structlog.get_logger()

K = TypeVar("K", bound=Hashable)


FEW: Final = 64
"""How many outdated timers may remain, besides as many as there are valid ones, before they are removed."""


class QueueClosed(Exception):
    """The queue was closed and is empty."""


class WorkQueue(Generic[K]):
    """Keys to work on, each at most once at a time in work and at most once in the queue.

    Namespaces take turns, so that many keys of one tenant do not delay the keys of others. Keys of one namespace, and keys
    without a namespace, are worked on in the order of their arrival.

    A key that is added while it is in work is queued again when that work is done. So no change is missed, and no key is in work
    twice at once. A queue belongs to one event loop; other threads use `loop.call_soon_threadsafe`. `first_delay`: seconds before
    the first retry of a key; each further retry doubles the delay.
    """

    def __init__(
        self,
        name: str = "",
        *,
        first_delay: float = 0.005,
        longest_delay: float = 60.0,
        now: Callable[[], float] = time.time,
        observer: Observer = SILENT,
    ) -> None:
        self.name = name
        self._backoff = Backoff(first_delay, longest_delay)
        self._now = now
        self._observer = observer
        self._waiting: dict[str, deque[K]] = {}  # by namespace; the first one is next
        self._queued: dict[K, float] = {}  # when each waiting key was added, by the loop's clock
        self._again: dict[K, float] = {}  # keys in work that were added meanwhile, and when
        self._in_work: dict[K, float] = {}  # keys in work, and when their work began
        self._got_on: dict[K, float] = {}  # keys in work, and when their work last made progress
        self._failures: dict[K, int] = {}
        self._due: dict[K, float] = {}
        self._timers: list[tuple[float, int, K]] = []
        self._sequence = 0
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0  # kept separately, because uvloop's handle does not know the time of a past timer
        self._getters: deque[asyncio.Future[None]] = deque()
        self._closed = False

    def __len__(self) -> int:
        """Return how many keys wait for a worker, without delayed keys and keys in work."""
        return len(self._queued)

    @property
    def delayed(self) -> int:
        """How many keys wait for a later time."""
        return len(self._due)

    def gets_on(self, key: K) -> None:
        """Report progress of the work on `key`, so that long work does not count as stuck."""
        if key in self._in_work:
            self._got_on[key] = loop_time()

    def longest_standstill(self) -> float:
        """Return the longest time, in seconds, for which the work on a key has made no progress; 0 when no key is in work."""
        return loop_time() - min(self._got_on.values()) if self._got_on else 0.0

    def add(self, key: K) -> None:
        """Queue `key`, so that a free worker works on it."""
        if self._closed or key in self._queued or key in self._again:
            return
        if key in self._in_work:
            self._again[key] = loop_time()
            return
        self._enqueue(key, loop_time())

    def add_after(self, key: K, seconds: float) -> None:
        """Queue `key` after `seconds`; of several calls for the same key, the earliest time is used."""
        if self._closed:
            return
        if seconds <= 0:
            self.add(key)
            return
        due = loop_time() + seconds
        known = self._due.get(key)
        if known is not None and known <= due:
            return
        self._due[key] = due
        self._sequence += 1
        heapq.heappush(self._timers, (due, self._sequence, key))
        if len(self._timers) > 2 * len(self._due) + FEW:
            self._timers = [timer for timer in self._timers if self._due.get(timer[2]) == timer[0]]
            heapq.heapify(self._timers)
        self._set_alarm()

    def add_at(self, key: K, when: float) -> None:
        """Queue `key` at `when`, in seconds since the epoch."""
        self.add_after(key, when - self._now())

    def caught_up(self, key: K, *, within: float = 0.0) -> None:
        """Drop the additions of `key` since its work began. The worker calls this after it has read the present state of `key`.

        `within`: also drop a delayed addition that is due within so many seconds. If `key` has other work that is due that soon,
        the worker must add `key` again.
        """
        self._again.pop(key, None)
        due = self._due.get(key)
        if due is not None and due <= loop_time() + within:
            del self._due[key]

    def add_rate_limited(self, key: K, *, after: float = 0.0) -> None:
        """Queue `key` again after a delay that doubles with each call since the last `forget`."""
        if self._closed:
            return
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self.add_after(key, after + self._backoff.after(failures))

    def failures(self, key: K) -> int:
        """Return how often `add_rate_limited` was called for `key` since the last `forget`."""
        return self._failures.get(key, 0)

    def forget(self, key: K) -> None:
        """Forget the failures of `key` after a success: its next delay is the shortest one again."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """Return the next key; the caller must call `done` with it. Raises QueueClosed: the queue was closed and is empty."""
        while not self._waiting:
            if self._closed:
                raise QueueClosed(self.name)
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                if getter.done() and not getter.cancelled():
                    self._wake()  # this caller was woken: wake the next one
                raise
            finally:
                if getter in self._getters:
                    self._getters.remove(getter)
        key = self._next()
        now = loop_time()
        self._in_work[key] = self._got_on[key] = now
        self._observer.started(self.name, now - self._queued.pop(key))
        self._observer.depth(self.name, len(self._queued))
        return key

    def _next(self) -> K:
        namespace = next(iter(self._waiting))
        keys = self._waiting.pop(namespace)
        key = keys.popleft()
        if keys:
            self._waiting[namespace] = keys  # behind the other namespaces
        return key

    def done(self, key: K, *, failed: bool = False) -> None:
        """Record that the work on `key` has ended; `failed` is only for the observer."""
        began = self._in_work.pop(key)
        del self._got_on[key]
        self._observer.finished(self.name, loop_time() - began, failed)
        since = self._again.pop(key, None)
        if since is not None:
            self._enqueue(key, since)

    def close(self) -> None:
        """Accept no more keys; `get` returns the waiting keys and then raises."""
        self._closed = True
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self._timers.clear()
        self._due.clear()
        for getter in self._getters:
            if not getter.done():
                getter.set_result(None)

    def _enqueue(self, key: K, since: float) -> None:
        self._queued[key] = since
        self._waiting.setdefault(getattr(key, "namespace", ""), deque()).append(key)
        self._observer.depth(self.name, len(self._queued))
        self._wake()

    def _wake(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _set_alarm(self) -> None:
        due = self._timers[0][0]
        if self._alarm is not None:
            if self._alarm_at <= due:
                return
            self._alarm.cancel()
        self._alarm = asyncio.get_running_loop().call_at(due, self._ring)
        self._alarm_at = due

    def _ring(self) -> None:
        self._alarm = None
        now = loop_time()
        while self._timers and self._timers[0][0] <= now:
            due, _, key = heapq.heappop(self._timers)
            if self._due.get(key) == due:
                del self._due[key]
                self.add(key)
        if self._timers:
            self._set_alarm()


async def run_workers(
    queue: WorkQueue[K], reconcile: Callable[[K], Awaitable[object]], workers: int, refusals: Refusals[K] | None = None
) -> None:
    """Reconcile the keys of `queue` with `workers` tasks, until the queue is closed and empty, or until cancelled.

    A key whose reconciliation raises is tried again after a delay that doubles, or that the API server requested. Such an error
    never ends a worker. `refusals` records permanent errors as Events, and decides when the key is tried again: not earlier, even
    if its object changes.
    """
    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(_work(queue, reconcile, refusals))


async def _work(queue: WorkQueue[K], reconcile: Callable[[K], Awaitable[object]], refusals: Refusals[K] | None) -> None:
    while True:
        try:
            key = await _next(queue, refusals)
        except QueueClosed:
            return
        failures = queue.failures(key)
        failed, asked, pause = True, 0.0, 0.0
        try:
            await reconcile(key)
            failed = False
            if refusals is not None:
                refusals.forget(key)
        except KubeError as error:
            if refusals is not None and not is_transient(error):
                pause = refusals.take(key, error)
            else:
                asked = error.retry_after or 0.0 if isinstance(error, ApiError) else 0.0
                log.warning("reconcile.failed", queue=queue.name, key=str(key), error=str(error), retries=failures)
        except Exception:  # any other error concerns only this key
            log.exception("reconcile.crashed", queue=queue.name, key=str(key), retries=failures)
        finally:
            queue.done(key, failed=failed)
        if pause:
            queue.add_after(key, pause)
        elif failed:
            queue.add_rate_limited(key, after=asked)
        elif queue.failures(key) == failures:
            queue.forget(key)  # unless the reconciliation itself requested a delayed retry


async def _next(queue: WorkQueue[K], refusals: Refusals[K] | None) -> K:
    """Return the next key that may be tried now."""
    while True:
        key = await queue.get()
        left = refusals.left(key) if refusals is not None else 0.0
        if not left:
            return key
        queue.done(key)
        queue.add_after(key, left)
