"""The work queues of one controller, one for each shard that this replica leads."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from pyroclast.kube.basics.observer import SILENT, Observer
from pyroclast.kube.workqueue.queue import WorkQueue

K = TypeVar("K", bound=Hashable)


class ShardedQueue(Generic[K]):
    """A work queue that ignores keys of shards led by other replicas.

    Each shard has its own queue and workers. When the shard is given up, its keys, delays and failures are dropped. Keys of other
    shards are not affected by the stopped workers. `shard_of`: returns the shard of a key; None when no replica has to work on
    the key.
    """

    def __init__(
        self,
        name: str,
        *,
        shards: int,
        shard_of: Callable[[K], int | None],
        longest_delay: float = 60.0,
        now: Callable[[], float] = time.time,
        observer: Observer = SILENT,
    ) -> None:
        self.name = name
        self._shards, self._shard_of = shards, shard_of
        self._longest_delay, self._now, self._observer = longest_delay, now, observer
        self._queues: dict[int, WorkQueue[K]] = {}
        self._closed = WorkQueue[K]()
        """The queue of the keys of other replicas, which it ignores."""
        self._closed.close()

    def __len__(self) -> int:
        """Return how many keys wait for a worker."""
        return sum(map(len, self._queues.values()))

    def open(self, shard: int) -> WorkQueue[K]:
        """Return an empty queue for a shard that this replica now leads; its workers take keys from this queue."""
        name = self.name if self._shards <= 1 else f"{self.name}-{shard}"
        queue = WorkQueue[K](name, longest_delay=self._longest_delay, now=self._now, observer=self._observer)
        self._queues[shard] = queue
        return queue

    def close(self, shard: int) -> None:
        """Drop the queue of a shard that this replica no longer leads; a second call has no effect."""
        queue = self._queues.pop(shard, None)
        if queue is not None:
            queue.close()

    def gets_on(self, key: K) -> None:
        """Report progress of the work on `key`; see `WorkQueue.gets_on`."""
        self._queue_of(key).gets_on(key)

    def longest_standstill(self) -> float:
        """Return the longest time, in seconds, for which the work on a key has made no progress; 0 when no key is in work."""
        return max((queue.longest_standstill() for queue in self._queues.values()), default=0.0)

    def add(self, key: K) -> None:
        """Queue `key`, so that a free worker works on it."""
        self._queue_of(key).add(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Queue `key` after `seconds`; of several calls for the same key, the earliest time is used."""
        self._queue_of(key).add_after(key, seconds)

    def add_at(self, key: K, when: float) -> None:
        """Queue `key` at `when`, in seconds since the epoch."""
        self._queue_of(key).add_at(key, when)

    def caught_up(self, key: K, *, within: float = 0.0) -> None:
        """Drop the additions of `key` since its work began; see `WorkQueue.caught_up`."""
        self._queue_of(key).caught_up(key, within=within)

    def add_rate_limited(self, key: K, *, after: float = 0.0) -> None:
        """Queue `key` again after a delay that doubles with each call since the last `forget`."""
        self._queue_of(key).add_rate_limited(key, after=after)

    def failures(self, key: K) -> int:
        """Return how often `add_rate_limited` was called for `key` since the last `forget`."""
        return self._queue_of(key).failures(key)

    def forget(self, key: K) -> None:
        """Forget the failures of `key` after a success: its next delay is the shortest one again."""
        self._queue_of(key).forget(key)

    def _queue_of(self, key: K) -> WorkQueue[K]:
        shard = self._shard_of(key)
        return self._closed if shard is None else self._queues.get(shard, self._closed)
