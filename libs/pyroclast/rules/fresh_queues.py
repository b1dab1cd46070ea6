"""Queues that a denial may rest on, while caches may show them as they were: noted first, then read, then judged by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter

from pyroclast.rules.lookups import QueueLookup, QueueView

__all__ = ["NotedQueues", "ReadQueues"]


class NotedQueues:
    """`queues`; `note` is told the name of each that is asked for and speaks against a request, or is not there."""

    __slots__ = ("_note", "_queues")

    def __init__(self, queues: QueueLookup, note: Callable[[str], None]) -> None:
        self._queues, self._note = queues, note

    def get(self, name: str) -> QueueView | None:
        """The queue of that name."""
        view = self._queues.get(name)
        if name and (view is None or not view.is_open):
            self._note(name)
        return view

    def children(self, name: str) -> Sequence[QueueView]:
        """The queues below that one."""
        children = self._queues.children(name)
        for child in children:
            self._note(child.name)
        return children

    def all(self) -> Sequence[QueueView]:
        """Every queue."""
        return self._queues.all()


class ReadQueues:
    """`queues`, but for those that were `read`: None for one that is not there."""

    __slots__ = ("_queues", "_read")

    def __init__(self, queues: QueueLookup, read: Mapping[str, QueueView | None]) -> None:
        self._queues, self._read = queues, read

    def get(self, name: str) -> QueueView | None:
        """The queue of that name."""
        return self._read[name] if name in self._read else self._queues.get(name)

    def children(self, name: str) -> Sequence[QueueView]:
        """The queues below that one, ordered by name."""
        return self._with_read(self._queues.children(name), parent=name)

    def all(self) -> Sequence[QueueView]:
        """Every queue."""
        return self._with_read(self._queues.all())

    def _with_read(self, cached: Sequence[QueueView], *, parent: str | None = None) -> Sequence[QueueView]:
        read = (view for view in self._read.values() if view is not None and parent in (None, view.parent))
        return sorted((*(view for view in cached if view.name not in self._read), *read), key=attrgetter("name"))
