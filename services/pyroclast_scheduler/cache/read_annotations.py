"""Records which annotations of nodes are read. A change of any other annotation, such as a heartbeat, is ignored.

Plugins, also of other packages, read annotations without declaring them, so that each read is recorded here.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Any, cast

import msgspec

from pyroclast.api.records import Node


class ReadAnnotations:
    """The keys of the node annotations that plugins have read on any node."""

    def __init__(self) -> None:
        self._keys: set[str] = set()
        self._are_all_read = False
        self._passed_over: set[str] = set()
        self._is_late = False

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

    def is_late(self) -> bool:
        """Whether a key was read for the first time after a change of it had been ignored. A second call returns False."""
        was_late, self._is_late = self._is_late, False
        return was_late


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
