"""Read your own writes: the responses to this program's writes replace the informer's records until the informer has caught up.

Without this, a reconciliation directly after a write would decide on the old objects, and write the same again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from pyroclast.api.records import Record
from pyroclast.api.types import Key
from pyroclast.kube.watch.informer import Informer

LIFETIME: Final = 30.0
"""Seconds after which an own write is no longer used: the informer must have missed an object that existed for a short time."""

GROUP: Final = "group"
"""The name of the index by which an informer finds the members of a group."""

T = TypeVar("T", bound=Record)


@dataclass(slots=True)
class _Written(Generic[T]):
    record: T | None
    uid: str
    until: float
    is_own: bool = True
    groups: frozenset[str] | None = None


class Recent(Generic[T]):
    """An informer's records, corrected by this program's own writes.

    `informer`: the informer. Its index `GROUP` uses the same function as `group`. `group`: returns the groups to which an object
    belongs.
    """

    def __init__(
        self, informer: Informer[T], clock: Callable[[], float], group: Callable[[T], Iterable[str]] = lambda _: ()
    ) -> None:
        self.informer = informer
        self._clock = clock
        self._group = group
        self._written: dict[Key, _Written[T]] = {}
        self._grouped: dict[str, set[Key]] = {}
        self._deleted: dict[str, float] = {}
        self._views: dict[str, dict[str, T]] = {}
        self._echo: T | None = None
        informer.on_change(self._caught_up)

    def put(self, record: T, *, is_own: bool = True) -> None:
        """Record a response of the server about an object, unless the watch has already reported the deletion of that object.

        `is_own`: whether the response is to a write of this program, not to a read.
        """
        if record.metadata.uid in self._deleted:
            return
        known = self.informer.get(record.key)
        if known is None or known.metadata.uid != record.metadata.uid or _version(known) < _version(record):
            self._keep(record.key, _Written(record, record.metadata.uid, self._clock() + LIFETIME, is_own))

    def is_echo(self, record: T | None) -> bool:
        """Whether `record`, which the watch has just delivered, equals the response to an own write, and so is already known."""
        return record is not None and record is self._echo

    def gone(self, key: Key, uid: str) -> None:
        """Record that this program deleted an object, or learned that the object no longer exists."""
        known = self.informer.get(key)
        if known is not None and known.metadata.uid == uid:
            self._keep(key, _Written(None, uid, self._clock() + LIFETIME))
        else:
            self._drop(key)

    def get(self, key: Key) -> T | None:
        """Return the object of that key, corrected by own writes; None when there is none."""
        return self._correct(key, self.informer.get(key))

    def members(self, group: str) -> Mapping[str, T]:
        """Return the objects of a group by name, corrected by own writes; all are in one namespace.

        The returned mapping is shared and changes with each update, so a caller must call this method again each time.
        """
        view = self._views.get(group)
        if view is None:
            keys = dict.fromkeys(record.key for record in self.informer.by_index(GROUP, group))
            keys.update(dict.fromkeys(self._grouped.get(group, ())))
            found = ((key, self.get(key)) for key in keys)
            view = {key.name: record for key, record in found if record is not None}
            if view:
                self._views[group] = view
        for key in [key for key in self._grouped.get(group, ()) if self._written[key].until < self._clock()]:
            self._drop(key)  # the write is too old to be used
        return view

    def _show(self, key: Key, groups: Iterable[str]) -> None:
        for group in groups:
            view = self._views.get(group)
            if view is None:
                continue
            record = self.get(key)
            if record is not None and group in self._group(record):
                view[key.name] = record
            else:
                view.pop(key.name, None)
                if not view:
                    del self._views[group]

    def is_ahead(self, group: str) -> bool:
        """Whether own writes to members of a group exist that the informer does not show yet."""
        return group in self._grouped

    def _correct(self, key: Key, seen: T | None) -> T | None:
        written = self._written.get(key)
        if written is None:
            return seen
        if written.until < self._clock():
            self._drop(key)
            return seen
        if seen is None or seen.metadata.uid == written.uid:
            return written.record
        return seen if written.record is None or _version(seen) > _version(written.record) else written.record

    def _caught_up(self, old: T | None, new: T | None) -> None:
        record = new or old
        if record is None:
            return
        if new is None:
            self._note_deletion(record.metadata.uid)
        self._echo = None
        self._overtake(record, new)
        if self._views:
            self._show(record.key, {group for each in (old, new) if each is not None for group in self._group(each)})

    def _overtake(self, record: T, new: T | None) -> None:
        """Drop an own write if the watch has delivered it, or a newer version."""
        written = self._written.get(record.key)
        if written is None:
            return
        if new is not None and written.is_own and written.record is not None and new.metadata.uid == written.uid:
            self._echo = new if new.metadata.resource_version == written.record.metadata.resource_version else None
        if new is None:
            overtaken = record.metadata.uid == written.uid
        elif new.metadata.uid == written.uid:
            overtaken = written.record is not None and _version(new) >= _version(written.record)
        else:
            overtaken = written.record is None or _version(new) > _version(written.record)
        if overtaken:
            self._drop(record.key)

    def _note_deletion(self, uid: str) -> None:
        """Remember a deletion for as long as a response about the object may still arrive."""
        now = self._clock()
        while self._deleted:
            oldest = next(iter(self._deleted))
            if self._deleted[oldest] > now - LIFETIME:
                break
            del self._deleted[oldest]
        self._deleted[uid] = now

    def _keep(self, key: Key, written: _Written[T]) -> None:
        self._drop(key)
        self._written[key] = written
        for group in self._groups_of(key, written):
            self._grouped.setdefault(group, set()).add(key)
        self._show(key, self._groups_of(key, written))

    def _drop(self, key: Key) -> None:
        written = self._written.pop(key, None)
        if written is None:
            return
        groups = self._groups_of(key, written)
        for group in groups:
            keys = self._grouped.get(group, set())
            keys.discard(key)
            if not keys:
                self._grouped.pop(group, None)
        self._show(key, groups)

    def _groups_of(self, key: Key, written: _Written[T]) -> frozenset[str]:
        """Return the groups of the object that an own write created, changed or deleted."""
        if written.groups is None:
            record = written.record if written.record is not None else self.informer.get(key)
            written.groups = frozenset(self._group(record)) if record is not None else frozenset()
        return written.groups


def _version(record: Record) -> int:
    """Return the resourceVersion as a number; 0 when it is not a number, so that the informer's record takes precedence."""
    version = record.metadata.resource_version
    return int(version) if version.isdecimal() else 0
