"""Reading one object from the API server, for when the caches may lag behind."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import msgspec
import orjson

from pyroclast.api.records import JobFlow, Queue
from pyroclast.api.types import JOB_FLOWS, QUEUES
from pyroclast.kube.basics.deadline import Deadline
from pyroclast.kube.basics.errors import NotFound
from pyroclast.kube.http.client import Client
from pyroclast.runtime.in_process.queues import QueueCache, queue_view
from pyroclast_admission.caches import flow_view
from pyroclast_admission.fresh_reads import Doubt, View

__all__ = ["Fetcher"]

SECONDS: Final = 2.0
"""How long a lookup may take: the caller waits for its answer."""

REMEMBERED_SECONDS: Final = 0.5
"""For how long a queue that is nowhere is not asked for again: many jobs may name the same wrong queue at once."""

REMEMBERED: Final = 1024


class Fetcher:
    """Looks queues and flows up."""

    def __init__(self, client: Client, queues: QueueCache, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._queues, self._clock = client, queues, clock
        self._absent: dict[str, float] = {}

    async def fetch(self, doubt: Doubt) -> View | None:
        """What the API server has now; None where there is nothing, or where it is going.

        Raises:
            KubeError: it cannot be told.
        """
        now = self._clock()
        kind, key = doubt
        is_unknown = kind is QUEUES and self._queues.get(key.name) is None
        if is_unknown and self._absent.get(key.name, 0.0) > now:
            return None
        try:
            found = await self._client.get(kind, key, deadline=Deadline.after(SECONDS))
        except NotFound:
            if is_unknown:
                if len(self._absent) >= REMEMBERED:
                    self._absent.clear()
                self._absent[key.name] = now + REMEMBERED_SECONDS
            return None
        body = orjson.dumps(found)
        if kind is JOB_FLOWS:
            return flow_view(msgspec.json.decode(body, type=JobFlow))
        return queue_view(msgspec.json.decode(body, type=Queue))
