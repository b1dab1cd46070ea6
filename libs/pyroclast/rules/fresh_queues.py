"""Queues on which a denial may depend, while the cached queues may be out of date: such queues are noted, read, and
judged again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter

from pyroclast.rules.lookups import QueueLookup, QueueView


class NotedQueues:
    """A lookup in `queues` that reports to `note` the name of each queue which is missing or speaks against the request."""

    __slots__ = ("_note", "_queues")

    def __init__(self, queues: QueueLookup, note: Callable[[str], None]) -> None:
        self._queues, self._note = queues, note

    def get(self, name: str) -> QueueView | None:
        """Return the queue of that name; None when there is none."""
        view = self._queues.get(name)
        if name and (view is None or not view.is_open):
            self._note(name)
        return view

    def children(self, name: str) -> Sequence[QueueView]:
        """Return the queues whose parent is the queue `name`."""
        children = self._queues.children(name)
        for child in children:
            self._note(child.name)
        return children

    def all(self) -> Sequence[QueueView]:
        """Return all queues."""
        return self._queues.all()


class ReadQueues:
    """A lookup in `queues` in which the queues in `read` replace the cached ones; None for a queue that does not exist."""

    __slots__ = ("_queues", "_read")

    def __init__(self, queues: QueueLookup, read: Mapping[str, QueueView | None]) -> None:
        self._queues, self._read = queues, read

    def get(self, name: str) -> QueueView | None:
        """Return the queue of that name; None when there is none."""
        return self._read[name] if name in self._read else self._queues.get(name)

    def children(self, name: str) -> Sequence[QueueView]:
        """Return the children of that queue, ordered by name."""
        return self._with_read(self._queues.children(name), parent=name)

    def all(self) -> Sequence[QueueView]:
        """Return all queues, ordered by name."""
        return self._with_read(self._queues.all())

    def _with_read(self, cached: Sequence[QueueView], *, parent: str | None = None) -> Sequence[QueueView]:
        read = (view for view in self._read.values() if view is not None and parent in (None, view.parent))
        return sorted((*(view for view in cached if view.name not in self._read), *read), key=attrgetter("name"))
