"""Reading queues from the API server before a denial rests on what the cache says of them: it may lag behind."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Final

import msgspec
import orjson

from pyroclast.api.records import Queue
from pyroclast.api.types import QUEUES, Key
from pyroclast.kube.client import Client
from pyroclast.kube.deadline import Deadline
from pyroclast.kube.errors import NotFound
from pyroclast.rules.lookups import QueueLookup, QueueView
from pyroclast_admission.caches import queue_view

__all__ = ["DoubtedQueues", "QueueFetcher", "ReadQueues"]

SECONDS: Final = 2.0
"""How long a lookup may take: the caller waits for its answer."""

REMEMBERED_SECONDS: Final = 0.5
"""For how long a queue that is not there is not asked for again: many jobs may name the same wrong queue at once."""

REMEMBERED: Final = 1024


class QueueFetcher:
    """Looks queues up."""

    def __init__(self, client: Client, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._clock = client, clock
        self._absent: dict[str, float] = {}

    async def fetch(self, name: str) -> QueueView | None:
        """The queue of that name as the API server has it now.

        Raises:
            KubeError: it cannot be told.
        """
        now = self._clock()
        if self._absent.get(name, 0.0) > now:
            return None
        try:
            found = await self._client.get(QUEUES, Key("", name), deadline=Deadline.after(SECONDS))
        except NotFound:
            if len(self._absent) >= REMEMBERED:
                self._absent.clear()
            self._absent[name] = now + REMEMBERED_SECONDS
            return None
        return queue_view(msgspec.json.decode(orjson.dumps(found), type=Queue))


class DoubtedQueues:
    """Queues from the cache, with the names of those for which something may be denied that would not be a moment later."""

    __slots__ = ("_queues", "names")

    def __init__(self, queues: QueueLookup) -> None:
        self._queues = queues
        self.names: set[str] = set()

    def get(self, name: str) -> QueueView | None:
        """The queue of that name."""
        view = self._queues.get(name)
        if name and (view is None or not view.is_open):
            self.names.add(name)
        return view

    def children(self, name: str) -> Sequence[QueueView]:
        """The queues whose parent has that name, ordered by name."""
        children = self._queues.children(name)
        self.names.update(child.name for child in children)
        return children

    def all(self) -> Sequence[QueueView]:
        """Every queue."""
        return self._queues.all()


class ReadQueues:
    """Queues from the cache, but for those that were read: `read` has None for the ones that are not there."""

    __slots__ = ("_queues", "_read")

    def __init__(self, queues: QueueLookup, read: Mapping[str, QueueView | None]) -> None:
        self._queues, self._read = queues, read

    def get(self, name: str) -> QueueView | None:
        """The queue of that name."""
        return self._read[name] if name in self._read else self._queues.get(name)

    def children(self, name: str) -> Sequence[QueueView]:
        """The queues whose parent has that name, ordered by name."""
        return self._with_read(self._queues.children(name), parent=name)

    def all(self) -> Sequence[QueueView]:
        """Every queue."""
        return self._with_read(self._queues.all())

    def _with_read(self, cached: Sequence[QueueView], *, parent: str | None = None) -> Sequence[QueueView]:
        read = (view for view in self._read.values() if view is not None and parent in (None, view.parent))
        return sorted((*(view for view in cached if view.name not in self._read), *read), key=attrgetter("name"))
