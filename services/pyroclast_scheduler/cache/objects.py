"""Objects of other kinds that plugins watch. The scheduler's own writes count as done before the API server confirms them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from pyroclast.api.records import reading
from pyroclast.api.records.meta import Meta, Record
from pyroclast.api.types import ResourceType
from pyroclast_scheduler.cache.changes import same_but_version
from pyroclast_scheduler.cache.reads import NotingObjects, ReadObjects
from pyroclast_scheduler.model.faults import Faults
from pyroclast_scheduler.model.objects import Objects


class _HasMetadata(Protocol):
    @property
    def metadata(self) -> Meta: ...


_Slot = tuple[type[Record], str]


class ObjectTable:
    """Records by type and namespace/name. `kinds`: the resource type of each record type.

    `read`: records the objects that sessions read without triggers. `hinted`: records those that sessions read with the trigger
    ObjectChange.
    """

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self.read, self.hinted = ReadObjects(), ReadObjects()
        self._found: dict[type[Record], dict[str, Any]] = {}
        self._promised: dict[_Slot, list[Mapping[str, Any]]] = {}
        self._wakes: list[Callable[[], None]] = []
        self.kinds: dict[type[Record], ResourceType] = {}

    def on_change(self, wake: Callable[[], None]) -> None:
        """Call `wake` after each change of a record."""
        self._wakes.append(wake)

    def changed(self, old: Record | None, new: Record | None) -> bool:
        """Handle that an object was created, changed or deleted. Return False if no decoded field changed."""
        known = None if new is None else self._found.get(type(new), {}).get(str(new.key))
        if new is not None and known is not None and is_older(new, known):
            return False
        for record in (old, new):
            if record is None:
                continue
            found = self._found.setdefault(type(record), {})
            found.pop(str(record.key), None)
            if record is new:
                found[str(record.key)] = record
            if type(record) in self.kinds:
                self._faults.clear(self.kinds[type(record)], record)
        for wake in self._wakes:
            wake()
        return new is None or known is None or not same_but_version(known, new)

    def leave_out(self, record: type[Record], key: str, reason: str) -> None:
        """Treat an object as missing until it changes."""
        found = self._found.get(record, {}).pop(key, None)
        if found is not None and record in self.kinds:
            self._faults.leave_out(self.kinds[record], found, reason)

    def get(self, record: type[Record], key: str) -> Any | None:  # noqa: ANN401 - a record of that type
        """Return the object of type `record` with that key, as the API server last showed it; None if it is not known."""
        return self._found.get(record, {}).get(key)

    def promise(self, record: type[Record], key: str, patch: Mapping[str, Any]) -> None:
        """Show the object to sessions as if `patch` were already written."""
        self._promised.setdefault((record, key), []).append(patch)

    def release(self, record: type[Record], key: str, patch: Mapping[str, Any]) -> tuple[Record | None, Record | None]:
        """Handle that a patch was confirmed or given up. Return the object as sessions saw it before and as they see it now."""
        before = self._seen(record, key)
        patches = self._promised.get((record, key), [])
        for at, each in enumerate(patches):
            if each is patch:
                del patches[at]
                break
        if not patches:
            self._promised.pop((record, key), None)
        return before, self._seen(record, key)

    def is_read_late(self) -> bool:
        """Whether a session first read an object that had changed since its snapshot. A second call returns False."""
        return any([self.read.is_late(), self.hinted.is_late()])

    def forget_old_reads(self) -> None:
        """Drop the reads from before the last call, since every job was examined after that call."""
        self.read.forget_old()
        self.hinted.forget_old()

    def for_session(self) -> Objects:
        """Return all objects for a session, and record which of them it reads."""
        self.read.snapshot_taken()
        self.hinted.snapshot_taken()
        return NotingObjects(self.view().found, read=self.read, hinted_reads=self.hinted)

    def view(self) -> Objects:
        """Return all objects as sessions see them. Reads of these objects are not recorded."""
        view = {record: dict(found) for record, found in self._found.items()}
        for record, key in self._promised:
            if key in view.get(record, {}):
                view[record][key] = self._seen(record, key)
        return Objects(view)

    def _seen(self, record: type[Record], key: str) -> Any | None:  # noqa: ANN401 - a record of that type
        """Return the object as sessions see it, with unconfirmed patches applied."""
        known, patches = self.get(record, key), self._promised.get((record, key))
        if known is None or not patches:
            return known
        body: Any = msgspec.to_builtins(known)
        for patch in patches:
            body = merged(body, patch)
        return reading.convert(body, record, strict=False)


def merged(body: Any, patch: Any) -> Any:  # noqa: ANN401 - JSON
    """Return `body` after a merge patch (RFC 7386)."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(body) if isinstance(body, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def is_older(new: _HasMetadata, known: _HasMetadata) -> bool:
    """Whether `new` is an earlier version of `known`: events may come after the response to the scheduler's own write."""
    one, other = new.metadata, known.metadata
    if one.uid != other.uid or not (one.resource_version.isdecimal() and other.resource_version.isdecimal()):
        return False
    return int(one.resource_version) < int(other.resource_version)
