"""Records what sessions read: the objects that plugins watch, and the annotations of nodes.

Plugins, also of other packages, read without declaring it. A change of what nobody has read, such as a heartbeat, starts no
session and retries no job.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast

import msgspec

from pyroclast.api.records import Node
from pyroclast.api.records.meta import Record
from pyroclast_scheduler.model.objects import Objects


class _Reads:
    def __init__(self) -> None:
        self._is_late = False

    def is_late(self) -> bool:
        """Whether something was first read after a change of it had been ignored. A second call returns False."""
        was_late, self._is_late = self._is_late, False
        return was_late


class ReadAnnotations(_Reads):
    """The keys of the node annotations that plugins have read on any node."""

    def __init__(self) -> None:
        super().__init__()
        self._keys: set[str] = set()
        self._are_all_read = False
        self._passed_over: set[str] = set()

    def noting(self, node: Node) -> Node:
        """Return the node with annotations that record each read."""
        annotations = _Annotations(self, node.metadata.annotations)
        return msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, annotations=annotations))

    def note(self, key: str) -> None:
        """Record a read of the annotation `key`."""
        if key not in self._keys:
            self._is_late = self._is_late or key in self._passed_over
            self._keys.add(key)

    def note_all(self) -> None:
        """Record a read of all annotations of a node."""
        self._is_late = self._is_late or (not self._are_all_read and bool(self._passed_over))
        self._are_all_read = True

    def are_same(self, old: Mapping[str, str], new: Mapping[str, str]) -> bool:
        """Whether two states of a node's annotations differ in no annotation that is read."""
        changed = {key for key, _ in _items(old) ^ _items(new)}
        if not changed:
            return True
        if self._are_all_read or changed & self._keys:
            return False
        self._passed_over |= changed
        return True


class _Annotations(dict[str, str]):
    """Annotations that record which of them are read."""

    def __init__(self, read: ReadAnnotations, annotations: Mapping[str, str]) -> None:
        super().__init__(annotations)
        self._read = read

    def __getitem__(self, key: str) -> str:
        self._read.note(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self._read.note(str(key))
        return super().__contains__(key)

    def get(self, key: str, default: Any = None) -> Any:  # noqa: ANN401 - as of any dict
        self._read.note(key)
        return super().get(key, default)

    def __iter__(self) -> Iterator[str]:
        self._read.note_all()
        return super().__iter__()

    def keys(self) -> KeysView[str]:  # type: ignore[override]
        self._read.note_all()
        return super().keys()

    def items(self) -> ItemsView[str, str]:  # type: ignore[override]
        self._read.note_all()
        return super().items()

    def values(self) -> ValuesView[str]:  # type: ignore[override]
        self._read.note_all()
        return super().values()


def _items(annotations: Mapping[str, str]) -> set[tuple[str, str]]:
    """Return names and values without recording a read."""
    return set(dict.items(cast(dict[str, str], annotations)))


T = TypeVar("T", bound=Record)
_ALL: Final = ""
_MOST_PASSED_OVER: Final = 100_000  # without a snapshot, as in a standby replica; above this number, all objects count as read
_Slot = tuple[type[Record], str]  # key: namespace/name, or namespace/ for all objects of a namespace, or empty for all


class ReadObjects(_Reads):
    """The objects that were read since the last call but one of `forget_old`. Sessions and watches are different threads."""

    def __init__(self) -> None:
        super().__init__()
        self._new: set[_Slot] = set()
        self._old: set[_Slot] = set()
        self._passed_over: set[_Slot] = set()

    def note(self, record: type[Record], key: str) -> None:
        """Record that a session reads one object, all objects of a namespace, or all objects."""
        slot = record, key
        if slot not in self._new:
            self._new.add(slot)  # added before the changes are checked: the other thread uses the opposite order
            self._is_late = self._is_late or slot in self._passed_over

    def is_read(self, *records: Record | None) -> bool:
        """Whether a session read one of these objects, so that their change may alter its decisions."""
        slots = [slot for record in records if record is not None for slot in _slots(record)]
        if len(self._passed_over) > _MOST_PASSED_OVER:
            self._passed_over.clear()
            self._is_late = True
        self._passed_over.update(slots)
        return any(slot in self._new or slot in self._old for slot in slots)

    def snapshot_taken(self) -> None:
        """Forget the changes so far, since the next session sees them."""
        self._passed_over.clear()

    def forget_old(self) -> None:
        """Drop the reads from before the last call, since every job was examined after that call."""
        self._old, self._new = self._new, set()


@dataclass(frozen=True, slots=True)
class NotingObjects(Objects):
    """Objects that record in `read` or in `hinted_reads` which of them are read."""

    read: ReadObjects = field(default_factory=ReadObjects)
    hinted_reads: ReadObjects = field(default_factory=ReadObjects)

    def of(self, record: type[T]) -> Mapping[str, T]:
        """Return all objects of one kind. A lookup by key counts as a read of one object, and any other use as a read of all."""
        return _Noting(self.read, record, self.found.get(record, {}))

    def hinted(self, record: type[T]) -> Mapping[str, T]:
        """Return the same mapping, whose reads are recorded in `hinted_reads`: ObjectChange names the affected jobs."""
        return _Noting(self.hinted_reads, record, self.found.get(record, {}))

    def in_namespace(self, record: type[T], namespace: str) -> list[T]:
        """Return the objects of one kind in a namespace."""
        self.read.note(record, f"{namespace}/")
        return Objects.in_namespace(self, record, namespace)


class _Noting(Mapping[str, T]):
    """The objects of one resource type by key. Each read is recorded."""

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
    """Return all slots whose readers have read this object."""
    kind, key = type(record), record.key
    return (kind, str(key)), (kind, f"{key.namespace}/"), (kind, _ALL)
