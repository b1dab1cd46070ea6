"""Which objects sessions read: a change of another one wakes no job.

Plugins, those of others too, read objects as they like. What they read is noted here, so that nobody needs to declare it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, ValuesView
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from pyroclast.api.records.meta import Record
from pyroclast_scheduler.model.objects import Objects

__all__ = ["NotingObjects", "ReadObjects"]

T = TypeVar("T", bound=Record)
_ALL: Final = ""
_MOST_PASSED_OVER: Final = (
    100_000  # while nobody takes a snapshot, as in a replica that waits to lead: beyond it all count as read
)
_Slot = tuple[type[Record], str]  # the key is namespace/name, namespace/ for all objects of a namespace, empty for all


class ReadObjects:
    """What was read since `forget_old` was called last but one. Sessions note on their thread what the watches ask on theirs."""

    def __init__(self) -> None:
        self._new: set[_Slot] = set()
        self._old: set[_Slot] = set()
        self._passed_over: set[_Slot] = set()
        self._is_late = False

    def note(self, record: type[Record], key: str) -> None:
        """A session reads the object, those of a namespace, or all."""
        slot = record, key
        if slot not in self._new:
            self._new.add(slot)  # before the changes are looked through: the other thread does it in the opposite order
            self._is_late = self._is_late or slot in self._passed_over

    def is_read(self, *records: Record | None) -> bool:
        """Whether a session read one of these objects: a change of it may alter what that session decided."""
        slots = [slot for record in records if record is not None for slot in _slots(record)]
        if len(self._passed_over) > _MOST_PASSED_OVER:
            self._passed_over.clear()
            self._is_late = True
        self._passed_over.update(slots)
        return any(slot in self._new or slot in self._old for slot in slots)

    def is_late(self) -> bool:
        """Whether an object was read for the first time that had changed since the snapshot was taken; told once."""
        was_late, self._is_late = self._is_late, False
        return was_late

    def snapshot_taken(self) -> None:
        """The next session sees all changes until now."""
        self._passed_over.clear()

    def forget_old(self) -> None:
        """Every job was looked at since this was called last: what was read before does not count any more."""
        self._old, self._new = self._new, set()


@dataclass(frozen=True, slots=True)
class NotingObjects(Objects):
    """Objects that note in `read`, or in `told`, what is read of them."""

    read: ReadObjects = field(default_factory=ReadObjects)
    told: ReadObjects = field(default_factory=ReadObjects)

    def of(self, record: type[T]) -> Mapping[str, T]:
        """All objects of one kind. Who looks up a key reads that object alone; who does anything else reads all."""
        return _Noting(self.read, record, self.found.get(record, {}))

    def told_of(self, record: type[T]) -> Mapping[str, T]:
        """The same, where triggers tell whom a change concerns."""
        return _Noting(self.told, record, self.found.get(record, {}))

    def in_namespace(self, record: type[T], namespace: str) -> list[T]:
        """The objects of one kind in a namespace."""
        self.read.note(record, f"{namespace}/")
        return Objects.in_namespace(self, record, namespace)


class _Noting(Mapping[str, T]):
    """Objects of one kind by key."""

    __slots__ = ("_found", "_read", "_record")

    def __init__(self, read: ReadObjects, record: type[T], found: Mapping[str, T]) -> None:
        self._read = read
        self._record = record
        self._found = found

    def __getitem__(self, key: str) -> T:
        self._read.note(self._record, key)
        return self._found[key]

    def __contains__(self, key: object) -> bool:
        self._read.note(self._record, str(key))
        return key in self._found

    def get(self, key: str, default: Any = None) -> Any:  # noqa: ANN401 - as of any mapping
        self._read.note(self._record, key)
        return self._found.get(key, default)

    def values(self) -> ValuesView[T]:
        self._read.note(self._record, _ALL)
        return ValuesView(self._found)

    def __iter__(self) -> Iterator[str]:
        self._read.note(self._record, _ALL)
        return iter(self._found)

    def __len__(self) -> int:
        self._read.note(self._record, _ALL)
        return len(self._found)


def _slots(record: Record) -> tuple[_Slot, ...]:
    """All that a reader of the object may have asked for."""
    kind, key = type(record), record.key
    return (kind, str(key)), (kind, f"{key.namespace}/"), (kind, _ALL)
