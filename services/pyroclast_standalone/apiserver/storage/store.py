"""The store: all objects and their history, with one revision for the server, a ring of changes per collection, and watchers.

Objects are stored as the JSON bytes that are sent, together with the fields that selectors need. A list concatenates these bytes,
watchers share the bytes of an event, and 10,000 pods fit in memory. Everything is synchronous: no other code runs between a read
and its commit.
"""

from __future__ import annotations

import asyncio
import bisect
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, Protocol

import orjson

ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"

DEFAULT_RING_SIZE: Final = 10_000  # stored changes per collection: some minutes of the busiest tests, 40 MB of pods

_log = logging.getLogger(__name__)
_NOTHING: Final[Mapping[str, str]] = {}


class Compacted(Exception):
    """The requested history was removed. `oldest` is the first revision that can still be read."""

    def __init__(self, oldest: int) -> None:
        super().__init__(f"history starts at revision {oldest}")
        self.oldest = oldest


@dataclass(slots=True, eq=False)
class Stored:
    """One revision of one object, immutable. `key` is `namespace/name`, or the name of a cluster-scoped object."""

    key: str
    revision: int
    data: bytes
    _: KW_ONLY
    uid: str
    labels: Mapping[str, str]
    fields: Mapping[str, str]
    owners: tuple[str, ...]
    deleting: bool

    @property
    def namespace(self) -> str:
        """The namespace, empty for a cluster-scoped object."""
        return self.key.rpartition("/")[0]

    @property
    def name(self) -> str:
        """The name of the object."""
        return self.key.rpartition("/")[2]

    def load(self) -> dict[str, Any]:
        """Return a new copy of the object, which the caller may modify."""
        loaded: dict[str, Any] = orjson.loads(self.data)
        return loaded


@dataclass(slots=True, eq=False)
class Change:
    """One committed write. For a deletion, `current` is the last state with the revision of the deletion."""

    kind: str
    revision: int
    current: Stored
    previous: Stored | None


class Journal(Protocol):
    """Stores writes durably."""

    def write(self, batch: Iterable[tuple[str, str, int, bytes | None]]) -> None:
        """Store changes durably, all or none. Each is (collection, key, revision, data). Data is None for a deletion."""


@dataclass(slots=True, eq=False)
class Subscription:
    """The changes of a collection after a revision, in order. `overrun`: the reader was too slow and must list again."""

    _position: int
    selects: Callable[[Stored], bool] | None
    _limit: int
    pending: deque[Change] = field(default_factory=deque)
    overrun: bool = False
    closed: bool = False
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _alarm: asyncio.TimerHandle | None = None  # reused by later waits, as most of them have the same deadline
    _deadline: float = 0.0

    def offer(self, change: Change) -> None:
        """Queue `change`, unless the start position of the reader already includes it."""
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
        """Tell the reader that no further changes follow."""
        self.closed = True
        if self._alarm is not None:
            self._alarm.cancel()
        self._wake.set()

    async def wait(self, now: float, deadline: float) -> None:
        """Wait until a change is queued, the subscription ends, or `deadline` is reached. Both times use one clock."""
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
    """All objects of one stored kind in the key order of etcd, and their recent history."""

    def __init__(self, name: str, ring_size: int, oldest: int) -> None:
        self.name = name
        self.fields_of: Callable[[dict[str, Any]], Mapping[str, str]] = lambda _: _NOTHING
        self.items: dict[str, Stored] = {}
        self.oldest = oldest  # the ring contains the changes after this revision
        self.subscriptions: set[Subscription] = set()
        self._keys: list[str] = []
        self._ring: deque[Change] = deque()
        self._ring_size = ring_size

    def keys(self, namespace: str = "") -> list[str]:
        """Return the sorted keys of one namespace or of all."""
        if not namespace:
            return self._keys
        first = bisect.bisect_left(self._keys, namespace + "/")
        return self._keys[first : bisect.bisect_left(self._keys, namespace + "0", first)]  # "0" comes right after "/"

    def select(self, namespace: str = "") -> Iterator[Stored]:
        """Yield the current objects in key order, of one namespace or of all."""
        items = self.items
        return (items[key] for key in self.keys(namespace))

    def at(self, revision: int, namespace: str = "") -> list[Stored]:
        """Return the objects as they were at `revision`, in key order.

        Raises Compacted: the ring does not contain that revision any more.
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
        """Return the changes after `revision`, oldest first.

        Raises Compacted: the ring does not contain that revision any more.
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
        """Subscribe to the changes after `revision`. `position` is the store's revision, up to which history is replayed at once.

        Raises Compacted: the ring does not contain that revision any more.
        """
        missed = self.since(revision)
        subscription = Subscription(revision, selects, len(missed) + limit)
        for change in missed:
            subscription.offer(change)
        subscription._position = max(position, revision)
        self.subscriptions.add(subscription)
        return subscription

    def record(self, change: Change) -> None:
        """Add `change` to the history and apply it to the current state."""
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
        """Add an object without history: at the start, or when its kind is decoded differently from now on."""
        if stored.key not in self.items:
            bisect.insort(self._keys, stored.key)
        self.items[stored.key] = stored

    def compact(self, revision: int) -> None:
        """Remove the changes up to `revision` from the history."""
        while self._ring and self._ring[0].revision <= revision:
            self._ring.popleft()
        self.oldest = max(self.oldest, revision)

    def changes(self) -> list[Change]:
        """Return the changes of this collection that the history still contains, oldest first."""
        return list(self._ring)


class Store:
    """All collections with one revision. With a journal, watchers and callers see changes only after they are stored durably."""

    def __init__(self, *, journal: Journal | None = None, revision: int = 1, ring_size: int = DEFAULT_RING_SIZE) -> None:
        self.revision = revision
        self.ring_size = ring_size
        self.listeners: list[Callable[[Collection, Change], None]] = []
        self.failure: Exception | None = None
        self.broken = asyncio.Event()  # set together with `failure`: no later commit would be durable
        self._start = revision
        self._journal = journal
        self._collections: dict[str, Collection] = {}
        self._unwritten: list[tuple[Collection, Change]] = []
        self._waiting: list[asyncio.Future[None]] = []  # waiters for the changes that are not written yet

    def collection(self, name: str) -> Collection:
        """Return the collection of that name, and create it if it does not exist."""
        found = self._collections.get(name)
        if found is None:
            found = self._collections[name] = Collection(name, self.ring_size, self._start)
        return found

    @property
    def published(self) -> int:
        """The revision up to which watchers have received everything. Later changes are not in the journal yet."""
        return self._unwritten[0][1].revision - 1 if self._unwritten else self.revision

    def begin_history(self) -> None:
        """Start the history at the present revision. The objects that were loaded and created so far have none."""
        self._start = self.revision
        for collection in self._collections.values():
            collection.compact(self.revision)

    def collections(self) -> list[Collection]:
        """All collections."""
        return list(self._collections.values())

    def put(self, collection: Collection, key: str, body: dict[str, Any]) -> Stored:
        """Commit `body` under `key` as the next revision, and take ownership of `body`. The caller has checked for conflicts."""
        return self._commit(MODIFIED if key in collection.items else ADDED, collection, key, body)

    def delete(self, collection: Collection, key: str) -> Stored:
        """Commit the deletion of `key`. Return the last state, which watchers receive."""
        return self._commit(DELETED, collection, key, collection.items[key].load())

    def _commit(self, kind: str, collection: Collection, key: str, body: dict[str, Any]) -> Stored:
        self.revision += 1
        body["metadata"]["resourceVersion"] = str(self.revision)
        current = make_stored(collection, key, self.revision, body)
        change = Change(kind, self.revision, current, collection.items.get(key))
        collection.record(change)
        if self._journal is None:
            self._publish(collection, change)
            return current
        if not self._unwritten:
            asyncio.get_running_loop().call_soon(self.flush)
        self._unwritten.append((collection, change))
        return current

    async def durable(self) -> None:
        """Wait until all commits so far are in the journal. Raises Exception: the error of the journal."""
        if self._unwritten:
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter

    def flush(self) -> None:
        """Write all unwritten changes in one transaction, then notify watchers and waiting callers."""
        batch, waiting = self._unwritten, [each for each in self._waiting if not each.done()]
        if not batch or self._journal is None:
            return
        self._unwritten, self._waiting = [], []
        try:
            self._journal.write(
                (collection.name, change.current.key, change.revision, None if change.kind is DELETED else change.current.data)
                for collection, change in batch
            )
        except Exception as error:  # noqa: BLE001 - raised to the waiting callers, and the server stops
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
            except Exception:  # noqa: BLE001 - the write is committed; a failing listener must not affect the others
                _log.exception("listener.failed: collection=%s key=%s", collection.name, change.current.key)


def make_stored(collection: Collection, key: str, revision: int, body: dict[str, Any]) -> Stored:
    """Return the stored form of `body`, whose resourceVersion is already set."""
    metadata = body["metadata"]
    owners = metadata.get("ownerReferences")
    return Stored(
        key,
        revision,
        bytes(memoryview(orjson.dumps(body))),  # a copy of exact size: orjson's result keeps a buffer of 8 KiB
        uid=metadata.get("uid", ""),
        labels=metadata.get("labels") or _NOTHING,
        fields=collection.fields_of(body),
        owners=tuple(owner.get("uid", "") for owner in owners) if owners else (),
        deleting="deletionTimestamp" in metadata,
    )
