"""Reading one queue from the API server, for when the cache does not know it (yet)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import msgspec
import orjson

from pyroclast.api.records import Queue
from pyroclast.api.types import QUEUES, Key
from pyroclast.kube.client import Client
from pyroclast.kube.deadline import Deadline
from pyroclast.kube.errors import NotFound
from pyroclast.rules.lookups import QueueView
from pyroclast_admission.caches import QueueCache, queue_view

__all__ = ["QueueFetcher"]

SECONDS: Final = 2.0
"""How long a lookup may take: the caller waits for its answer."""

REMEMBERED_SECONDS: Final = 0.5
"""For how long a queue that is not there is not asked for again: many jobs may name the same wrong queue at once."""

REMEMBERED: Final = 1024


class QueueFetcher:
    """Looks queues up and puts what it finds into the cache."""

    def __init__(self, client: Client, cache: QueueCache, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._cache, self._clock = client, cache, clock
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
        view = queue_view(msgspec.json.decode(orjson.dumps(found), type=Queue))
        self._cache.put(view)
        return view
