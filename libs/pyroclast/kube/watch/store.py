"""The records of an informer by key, with indexes and handlers of changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, Generic, TypeVar

import structlog

from pyroclast.api.records.meta import Record
from pyroclast.api.types import Key

log = structlog.get_logger()

T = TypeVar("T", bound=Record)

BATCH: Final = 500  # records between two pauses for other tasks: at most a few milliseconds

Handler = Callable[[T | None, T | None], None]
Indexer = Callable[[T], Iterable[str]]


class Store(Generic[T]):
    """Records of one kind. Every change uses `put` or `drop`, which update the indexes and call the handlers."""

    def __init__(self, indexers: Mapping[str, Indexer[T]], on_error: Callable[[], None]) -> None:
        self._records: dict[Key, T] = {}
        self._indexers = dict(indexers)
        self._indexes: dict[str, dict[str, dict[Key, T]]] = {name: {} for name in indexers}
        self._handlers: list[Handler[T]] = []
        self._on_error = on_error

    def __len__(self) -> int:
        return len(self._records)

    def get(self, key: Key) -> T | None:
        """Return the record of that key; None when there is none."""
        return self._records.get(key)

    def values(self) -> Collection[T]:
        """Return all records; a live view."""
        return self._records.values()

    def by_index(self, name: str, value: str) -> list[T]:
        """Return the records for which the indexer `name` returned `value`."""
        return list(self._indexes[name].get(value, {}).values())

    def on_change(self, handler: Handler[T]) -> None:
        """Call `handler` for every change from now on, and at once for every existing record as an addition."""
        self._handlers.append(handler)
        for record in list(self._records.values()):
            self._call(handler, None, record)

    def put(self, record: T) -> None:
        """Add or update a record. A record with another UID than before counts as a deletion and an addition."""
        key = record.key
        old = self._records.get(key)
        if old is not None and old.metadata.uid != record.metadata.uid:
            self.drop(key)
            old = None
        self._records[key] = record
        if self._indexers:
            self._reindex(key, old, record)
        self._notify(old, record)

    def drop(self, key: Key, last: T | None = None) -> None:
        """Remove a record. `last`: its final state for the handlers; None when unknown."""
        old = self._records.pop(key, None)
        if old is None:
            return
        if self._indexers:
            self._reindex(key, old, None)
        self._notify(last or old, None)

    def refill(self) -> Refill[T]:
        """Begin to replace the records by those of a list."""
        return Refill(self, self._records)

    def _reindex(self, key: Key, old: T | None, new: T | None) -> None:
        for name, indexer in self._indexers.items():
            index = self._indexes[name]
            before = self._terms(name, indexer, old)
            after = self._terms(name, indexer, new)
            for value in before - after:
                bucket = index.get(value, {})
                bucket.pop(key, None)
                if not bucket:
                    index.pop(value, None)
            if new is not None:
                for value in after:
                    index.setdefault(value, {})[key] = new

    def _terms(self, name: str, indexer: Indexer[T], record: T | None) -> set[str]:
        if record is None:
            return set()
        try:
            return set(indexer(record))
        except Exception:  # an indexer that fails for one object must not stop the other indexers
            log.exception("informer.indexer_failed", index=name, key=str(record.key))
            self._on_error()
            return set()

    def _notify(self, old: T | None, new: T | None) -> None:
        for handler in self._handlers:
            self._call(handler, old, new)

    def _call(self, handler: Handler[T], old: T | None, new: T | None) -> None:
        try:
            handler(old, new)
        except Exception:  # a handler that fails for one object must not stop the other handlers
            log.exception("informer.handler_failed", key=str((new or old).key) if new or old else "")  # type: ignore[union-attr]
            self._on_error()


class Refill(Generic[T]):
    """Replaces the records of a store by those of a list, one by one, so that the list is never in memory as a whole.

    Nothing else may change the store meanwhile. If a refill is not finished, the store has a part of the list.
    """

    def __init__(self, store: Store[T], records: Mapping[Key, T]) -> None:
        self._store = store
        self._records = records
        self._listed: set[int] = set()  # by identity: a set of keys needs ten times the memory
        self.dropped: list[Key] = []
        """The keys of the records that `finish` has dropped."""

    def take(self, record: T) -> None:
        """Put `record`, which is in the list, into the store."""
        key = record.key
        held = self._records.get(key)
        if held is None or _identity(held) != _identity(record):
            self._store.put(record)
            held = record
        self._listed.add(id(held))

    def restart(self) -> None:
        """Forget which records were in the list, because the list is read again from its start."""
        self._listed.clear()

    def finish(self) -> Iterator[None]:
        """Drop the records that are not in the list.

        The caller must run this generator to its end. It yields from time to time, so that the caller can let other tasks run.
        """
        for done, record in enumerate(list(self._records.values()), 1):
            if id(record) not in self._listed:
                self._store.drop(record.key)
                self.dropped.append(record.key)
            if done % BATCH == 0:
                yield


def _identity(record: Record) -> tuple[str, str]:
    return record.metadata.uid, record.metadata.resource_version
