"""The objects and their history: one revision for the whole server, a ring of changes per collection, watchers.

Objects are kept as the JSON bytes that are sent, with what selectors need beside them: a list joins bytes, an event shares
them among its watchers, and 10,000 pods fit in memory. Everything is synchronous: nothing comes between a read and its commit.
"""

from __future__ import annotations

import asyncio
import bisect
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

import orjson

__all__ = [
    "ADDED",
    "DEFAULT_RING_SIZE",
    "DELETED",
    "MODIFIED",
    "Change",
    "Collection",
    "Compacted",
    "Journal",
    "Store",
    "Stored",
    "Subscription",
]

ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"

DEFAULT_RING_SIZE: Final = 10_000  # changes kept per collection: some minutes of the busiest tests, 40 MB of pods

_log = logging.getLogger(__name__)
_NOTHING: Final[Mapping[str, str]] = {}


class Compacted(Exception):
    """The history asked for is gone; `oldest` is the first revision that can still be read."""

    def __init__(self, oldest: int) -> None:
        super().__init__(f"history starts at revision {oldest}")
        self.oldest = oldest


class Stored:
    """One revision of one object. `key` is `namespace/name`, or the name of a cluster-scoped object; immutable."""

    __slots__ = ("data", "deleting", "fields", "key", "labels", "owners", "revision", "uid")

    def __init__(
        self,
        key: str,
        revision: int,
        data: bytes,
        *,
        uid: str,
        labels: Mapping[str, str],
        fields: Mapping[str, str],
        owners: tuple[str, ...],
        deleting: bool,
    ) -> None:
        self.key = key
        self.revision = revision
        self.data = data
        self.uid = uid
        self.labels = labels
        self.fields = fields
        self.owners = owners
        self.deleting = deleting

    @property
    def namespace(self) -> str:
        """Namespace, empty for a cluster-scoped object."""
        return self.key.rpartition("/")[0]

    @property
    def name(self) -> str:
        """Name of the object."""
        return self.key.rpartition("/")[2]

    def load(self) -> dict[str, Any]:
        """A fresh copy of the object, to be changed at will."""
        loaded: dict[str, Any] = orjson.loads(self.data)
        return loaded


class Change:
    """One committed write. `current` of a deletion is the last state with the revision of the deletion."""

    __slots__ = ("current", "kind", "previous", "revision")

    def __init__(self, kind: str, revision: int, current: Stored, previous: Stored | None) -> None:
        self.kind = kind
        self.revision = revision
        self.current = current
        self.previous = previous


class Journal(Protocol):
    """Where writes are made to last."""

    def write(self, batch: Iterable[tuple[str, str, int, bytes | None]]) -> None:
        """Store changes durably, all or none: each is (collection, key, revision, data), without data for a deletion."""


class Subscription:
    """The changes of a collection after a revision, in order. `overrun` when the reader was too slow and must start anew."""

    __slots__ = ("_alarm", "_deadline", "_limit", "_position", "_wake", "closed", "overrun", "pending", "selects")

    def __init__(self, position: int, selects: Callable[[Stored], bool] | None, limit: int) -> None:
        self.pending: deque[Change] = deque()
        self.selects = selects
        self.overrun = False
        self.closed = False
        self._position = position
        self._limit = limit
        self._wake = asyncio.Event()
        self._alarm: asyncio.TimerHandle | None = None  # kept from wait to wait, as most deadlines are those of the last wait
        self._deadline = 0.0

    def offer(self, change: Change) -> None:
        """Queue `change` unless it was already part of what the reader started from."""
        if change.revision <= self._position:
            return
        selects = self.selects
        if selects is not None and not selects(change.current) and (change.previous is None or not selects(change.previous)):
            return
        if len(self.pending) >= self._limit:
            self.overrun = True
        else:
            self.pending.append(change)
        self._wake.set()

    def close(self) -> None:
        """Tell the reader that nothing more will come."""
        self.closed = True
        if self._alarm is not None:
            self._alarm.cancel()
        self._wake.set()

    async def wait(self, now: float, deadline: float) -> None:
        """Wait until something is pending, the subscription ends, or it is `deadline`; both times in seconds on one clock."""
        if self.pending or self.closed or self.overrun:
            return
        self._wake.clear()
        if self._alarm is None or deadline != self._deadline:
            if self._alarm is not None:
                self._alarm.cancel()
            self._deadline = deadline
            self._alarm = asyncio.get_running_loop().call_later(max(0.0, deadline - now), self._ring)
        await self._wake.wait()

    def _ring(self) -> None:
        self._alarm = None
        self._wake.set()


class Collection:
    """All objects of one stored kind, sorted as etcd sorts its keys, and their recent history."""

    def __init__(self, name: str, ring_size: int, oldest: int) -> None:
        self.name = name
        self.fields_of: Callable[[dict[str, Any]], Mapping[str, str]] = lambda _: _NOTHING
        self.items: dict[str, Stored] = {}
        self.oldest = oldest  # changes after this revision are in the ring
        self.subscriptions: set[Subscription] = set()
        self._keys: list[str] = []
        self._ring: deque[Change] = deque()
        self._ring_size = ring_size

    def keys(self, namespace: str = "") -> list[str]:
        """Sorted keys, of one namespace or of all."""
        if not namespace:
            return self._keys
        first = bisect.bisect_left(self._keys, namespace + "/")
        return self._keys[first : bisect.bisect_left(self._keys, namespace + "0", first)]  # "0" comes right after "/"

    def select(self, namespace: str = "") -> Iterator[Stored]:
        """Current objects in key order, of one namespace or of all."""
        items = self.items
        return (items[key] for key in self.keys(namespace))

    def at(self, revision: int, namespace: str = "") -> list[Stored]:
        """The objects as they were at `revision`, in key order.

        Raises:
            Compacted: the ring does not reach back that far.
        """
        if revision < self.oldest:
            raise Compacted(self.oldest)
        if not self._ring or self._ring[-1].revision <= revision:
            return list(self.select(namespace))
        items: dict[str, Stored] = dict(self.items)
        for change in reversed(self._ring):
            if change.revision <= revision:
                break
            if change.previous is None:
                items.pop(change.current.key, None)
            else:
                items[change.current.key] = change.previous
        prefix = namespace + "/" if namespace else ""
        return [items[key] for key in sorted(items) if key.startswith(prefix)]

    def since(self, revision: int) -> list[Change]:
        """The changes after `revision`, oldest first.

        Raises:
            Compacted: the ring does not reach back that far.
        """
        if revision < self.oldest:
            raise Compacted(self.oldest)
        found: list[Change] = []
        for change in reversed(self._ring):
            if change.revision <= revision:
                break
            found.append(change)
        found.reverse()
        return found

    def subscribe(self, revision: int, position: int, selects: Callable[[Stored], bool] | None, limit: int) -> Subscription:
        """Follow the changes after `revision`; `position` is the revision of the store, up to which history is replayed now.

        Raises:
            Compacted: the ring does not reach back that far.
        """
        missed = self.since(revision)
        subscription = Subscription(revision, selects, len(missed) + limit)
        for change in missed:
            subscription.offer(change)
        subscription._position = max(position, revision)
        self.subscriptions.add(subscription)
        return subscription

    def record(self, change: Change) -> None:
        """Make `change` the newest of the history and of the current state."""
        key = change.current.key
        if change.kind is DELETED:
            del self.items[key]
            del self._keys[bisect.bisect_left(self._keys, key)]
        else:
            if key not in self.items:
                bisect.insort(self._keys, key)
            self.items[key] = change.current
        self._ring.append(change)
        if len(self._ring) > self._ring_size:
            self.oldest = self._ring.popleft().revision

    def adopt(self, stored: Stored) -> None:
        """Take over an object without history: at start, or when its kind reads it differently from now on."""
        if stored.key not in self.items:
            bisect.insort(self._keys, stored.key)
        self.items[stored.key] = stored

    def compact(self, revision: int) -> None:
        """Forget the changes up to `revision`."""
        while self._ring and self._ring[0].revision <= revision:
            self._ring.popleft()
        self.oldest = max(self.oldest, revision)

    def changes(self) -> list[Change]:
        """The history that is kept, oldest first."""
        return list(self._ring)


class Store:
    """Every collection under one revision. With a journal, changes reach watchers and callers when they are safe in it."""

    def __init__(self, *, journal: Journal | None = None, revision: int = 1, ring_size: int = DEFAULT_RING_SIZE) -> None:
        self.revision = revision
        self.ring_size = ring_size
        self.listeners: list[Callable[[Collection, Change], None]] = []
        self.failure: Exception | None = None
        self.broken = asyncio.Event()  # set with `failure`: nothing that is committed from now on would last
        self._start = revision
        self._journal = journal
        self._collections: dict[str, Collection] = {}
        self._unwritten: list[tuple[Collection, Change]] = []
        self._waiting: list[asyncio.Future[None]] = []  # for the changes that are unwritten now

    def collection(self, name: str) -> Collection:
        """The collection of that name, made when it is new."""
        found = self._collections.get(name)
        if found is None:
            found = self._collections[name] = Collection(name, self.ring_size, self._start)
        return found

    @property
    def published(self) -> int:
        """The revision up to which watchers were told everything: what is not in the journal yet comes later."""
        return self._unwritten[0][1].revision - 1 if self._unwritten else self.revision

    def begin_history(self) -> None:
        """Let history start here: what was loaded and made so far has none."""
        self._start = self.revision
        for collection in self._collections.values():
            collection.compact(self.revision)

    def collections(self) -> list[Collection]:
        """All collections."""
        return list(self._collections.values())

    def put(self, collection: Collection, key: str, body: dict[str, Any]) -> Stored:
        """Commit `body`, which is given away, under `key` as the next revision. The caller has checked for conflicts."""
        previous = collection.items.get(key)
        self.revision += 1
        body["metadata"]["resourceVersion"] = str(self.revision)
        current = make_stored(collection, key, self.revision, body)
        self._record(collection, Change(MODIFIED if previous else ADDED, self.revision, current, previous))
        return current

    def delete(self, collection: Collection, key: str, body: dict[str, Any] | None = None) -> Stored:
        """Commit the removal of `key`; `body` is the last state to be told, by default the stored one. Returns that state."""
        previous = collection.items[key]
        body = previous.load() if body is None else body
        self.revision += 1
        body["metadata"]["resourceVersion"] = str(self.revision)
        current = make_stored(collection, key, self.revision, body)
        self._record(collection, Change(DELETED, self.revision, current, previous))
        return current

    def _record(self, collection: Collection, change: Change) -> None:
        collection.record(change)
        if self._journal is None:
            self._publish(collection, change)
            return
        if not self._unwritten:
            asyncio.get_running_loop().call_soon(self.flush)
        self._unwritten.append((collection, change))

    async def durable(self) -> None:
        """Wait until everything committed so far is in the journal.

        Raises:
            Exception: what the journal failed with.
        """
        if self._unwritten:
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter

    def flush(self) -> None:
        """Write what is unwritten as one transaction, then tell watchers and waiting callers."""
        batch, waiting = self._unwritten, [each for each in self._waiting if not each.done()]
        if not batch or self._journal is None:
            return
        self._unwritten, self._waiting = [], []
        try:
            self._journal.write(
                (collection.name, change.current.key, change.revision, None if change.kind is DELETED else change.current.data)
                for collection, change in batch
            )
        except Exception as error:  # noqa: BLE001 - whoever waits gets it, and the server stops
            self.failure = error
            self.broken.set()
            for waiter in waiting:
                waiter.set_exception(error)
            return
        for collection, change in batch:
            self._publish(collection, change)
        for waiter in waiting:
            waiter.set_result(None)

    def _publish(self, collection: Collection, change: Change) -> None:
        for subscription in collection.subscriptions:
            subscription.offer(change)
        for listener in self.listeners:
            try:
                listener(collection, change)
            except Exception:  # noqa: BLE001 - the write is done; who follows it must not undo the others
                _log.exception("listener.failed: collection=%s key=%s", collection.name, change.current.key)


def make_stored(collection: Collection, key: str, revision: int, body: dict[str, Any]) -> Stored:
    """The stored form of `body`, whose resourceVersion is already set."""
    metadata = body["metadata"]
    owners = metadata.get("ownerReferences")
    return Stored(
        key,
        revision,
        bytes(memoryview(orjson.dumps(body))),  # a copy of its very length: what orjson returns keeps a buffer of 8 KiB
        uid=metadata.get("uid", ""),
        labels=metadata.get("labels") or _NOTHING,
        fields=collection.fields_of(body),
        owners=tuple(owner.get("uid", "") for owner in owners) if owners else (),
        deleting="deletionTimestamp" in metadata,
    )
