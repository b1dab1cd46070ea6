"""The writer of past usage to the annotations of queues, for scheduler plugins that use past usage."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from pyroclast.api import keys
from pyroclast.api.past_usage import PastUsage, written_past_usage
from pyroclast.api.types import QUEUES
from pyroclast.kube.basics.errors import KubeError
from pyroclast.kube.http.client import Client
from pyroclast.lifecycle.times import format_duration
from pyroclast_recorder.database.database import Database, DatabaseUnavailable
from pyroclast_recorder.following.queue_annotations import annotate
from pyroclast_recorder.past_usage import HALF_LIVES, Used, bin_seconds, past_usage

log = structlog.get_logger()

SHORTEST_SECONDS: Final = 60.0
OF_A_HALF_LIFE: Final = 1 / 1000
"""The part of a half-life between two writes. The past usage hardly changes in this time."""


class PastUsageWriter:
    """Writes the annotation of each queue when the past usage has changed, at most once a minute.

    Args:
        client: reads and writes queues.
        database: the source of usage.
        settle: adds up usage until about now.
        half_life: the age in seconds at which usage has half its weight.
    """

    def __init__(self, client: Client, database: Database, settle: Callable[[], Awaitable[None]], half_life: float) -> None:
        self._client, self._database, self._settle, self._half_life = client, database, settle, half_life

    async def run(self) -> None:
        """Write past usage at intervals, until cancelled."""
        while True:
            try:
                await self.write()
            except (KubeError, DatabaseUnavailable) as error:
                log.warning("recorder.past_usage_not_written", error=str(error))
            await asyncio.sleep(max(SHORTEST_SECONDS, self._half_life * OF_A_HALF_LIFE))

    async def write(self) -> int:
        """Bring the annotations of all queues up to date; return the number of written annotations.

        Raises:
            KubeError: the queues cannot be read.
            DatabaseUnavailable: usage cannot be read.
        """
        await self._settle()
        now = int(self._client.now())
        since = now - int(HALF_LIVES * self._half_life)
        rows = await self._database.used_since(since, bin_seconds(self._half_life))
        found = await asyncio.to_thread(lambda: past_usage((Used(*row) for row in rows), now, self._half_life))
        nothing = PastUsage(half_life=format_duration(self._half_life))
        listed, _ = await self._client.list(QUEUES)
        written = 0
        for queue in listed:
            name, key = queue["metadata"]["name"], keys.QUEUE_PAST_USAGE
            text = written_past_usage(found.get(name, nothing))
            if (queue["metadata"].get("annotations") or {}).get(key) != text:
                written += await annotate(self._client, name, key, text, refused="recorder.past_usage_refused")
        return written
