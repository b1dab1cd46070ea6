"""Reads one object from the API server, for reviews whose cached objects may be out of date."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from pyroclast.api.records import JobFlow, Queue
from pyroclast.api.types import JOB_FLOWS, QUEUES
from pyroclast.kube.basics.deadline import Deadline
from pyroclast.kube.basics.errors import NotFound
from pyroclast.kube.http.client import Client
from pyroclast.kube.http.response_records import record_of
from pyroclast.runtime.in_process.queues import QueueCache, queue_view
from pyroclast_admission.caches import flow_view
from pyroclast_admission.fresh_reads import Doubt, View

SECONDS: Final = 2.0
"""Time limit of a lookup in seconds. The API server waits for the review meanwhile."""

REMEMBERED_SECONDS: Final = 0.5
"""Time in seconds for which a missing queue is not read again: many Jobs may name the same wrong queue at once."""

REMEMBERED: Final = 1024


class Fetcher:
    """Reads queues and flows from the API server."""

    def __init__(self, client: Client, queues: QueueCache, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._queues, self._clock = client, queues, clock
        self._absent: dict[str, float] = {}

    async def fetch(self, doubt: Doubt) -> View | None:
        """Return the object as the API server has it now. None when it does not exist or is being deleted.

        Raises:
            KubeError: the object could not be read.
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
        if kind is JOB_FLOWS:
            return flow_view(record_of(found, JobFlow))
        return queue_view(record_of(found, Queue))
