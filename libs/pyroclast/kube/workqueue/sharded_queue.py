"""The work queues of one controller, one for each shard that is led here."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from pyroclast.kube.basics.observer import SILENT, QueueObserver
from pyroclast.kube.workqueue.queue import WorkQueue

__all__ = ["ShardedQueue"]

K = TypeVar("K", bound=Hashable)


class ShardedQueue(Generic[K]):
    """Takes keys as a `WorkQueue` does, and leaves out those of shards that are led elsewhere.

    Each shard has a queue and workers of its own. When a shard is given up, its keys, delays and failures end with it, and no
    key of another shard is lost because its worker was stopped.

    Args:
        name: for logs and metrics.
        shards: into how many parts the keys are divided.
        shard_of: the shard of a key; None when nobody has to work on it.
        longest_delay: ceiling of the delay between retries, in seconds.
        now: seconds since the epoch, for `add_at`.
        observer: told of the work.
    """

    def __init__(
        self,
        name: str,
        *,
        shards: int,
        shard_of: Callable[[K], int | None],
        longest_delay: float = 60.0,
        now: Callable[[], float] = time.time,
        observer: QueueObserver = SILENT,
    ) -> None:
        self.name = name
        self._shards, self._shard_of = shards, shard_of
        self._longest_delay, self._now, self._observer = longest_delay, now, observer
        self._queues: dict[int, WorkQueue[K]] = {}

    def __len__(self) -> int:
        """How many keys wait to be worked on now."""
        return sum(map(len, self._queues.values()))

    def open(self, shard: int) -> WorkQueue[K]:
        """An empty queue for a shard that is led from now on; its workers drain it."""
        name = self.name if self._shards <= 1 else f"{self.name}-{shard}"
        queue = WorkQueue[K](name, longest_delay=self._longest_delay, now=self._now, observer=self._observer)
        self._queues[shard] = queue
        return queue

    def close(self, shard: int) -> None:
        """Forget the keys of a shard that is no longer led here; harmless when it is not."""
        queue = self._queues.pop(shard, None)
        if queue is not None:
            queue.close()

    def gets_on(self, key: K) -> None:
        """A part of the work on `key` is done: see `WorkQueue.gets_on`."""
        queue = self._queue_of(key)
        if queue is not None:
            queue.gets_on(key)

    def longest_standstill(self) -> float:
        """Seconds since work on a key began or got on last, for the key with which that is longest ago; 0 without any."""
        return max((queue.longest_standstill() for queue in self._queues.values()), default=0.0)

    def add(self, key: K) -> None:
        """Work on `key` as soon as a worker is free."""
        queue = self._queue_of(key)
        if queue is not None:
            queue.add(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Work on `key` in so many seconds; of several such wishes for a key the earliest counts."""
        queue = self._queue_of(key)
        if queue is not None:
            queue.add_after(key, seconds)

    def add_at(self, key: K, when: float) -> None:
        """Work on `key` at `when`, in seconds since the epoch."""
        queue = self._queue_of(key)
        if queue is not None:
            queue.add_at(key, when)

    def caught_up(self, key: K, *, within: float = 0.0) -> None:
        """Whoever works on `key` has just taken in all that is known of it: see `WorkQueue.caught_up`."""
        queue = self._queue_of(key)
        if queue is not None:
            queue.caught_up(key, within=within)

    def add_rate_limited(self, key: K, *, after: float = 0.0) -> None:
        """Work on `key` again after a delay that doubles with each call since the last `forget`; it begins in `after` seconds."""
        queue = self._queue_of(key)
        if queue is not None:
            queue.add_rate_limited(key, after=after)

    def failures(self, key: K) -> int:
        """How often `add_rate_limited` was called for `key` since the last `forget`."""
        queue = self._queue_of(key)
        return 0 if queue is None else queue.failures(key)

    def forget(self, key: K) -> None:
        """The work on `key` went well: the next delay starts small again."""
        queue = self._queue_of(key)
        if queue is not None:
            queue.forget(key)

    def _queue_of(self, key: K) -> WorkQueue[K] | None:
        shard = self._shard_of(key)
        return None if shard is None else self._queues.get(shard)
