"""The writer of the ConfigMap with the run times of past Jobs, which the scheduler reads."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import structlog

from pyroclast.api.run_lengths import CONFIG_MAP, DATA_KEY, written_run_lengths
from pyroclast.api.types import CONFIG_MAPS, Key
from pyroclast.kube.basics.errors import KubeError, NotFound
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast_recorder.database.database import Database, DatabaseUnavailable
from pyroclast_recorder.run_lengths import run_lengths

log = structlog.get_logger()

PERIOD_SECONDS: Final = 300.0
WINDOW_SECONDS: Final = 90 * 86_400
MOST_RUNS: Final = 50_000
"""The most ended Jobs that are evaluated, the latest first. The evaluation uses about a second of one core, in a thread."""


class RunLengthsWriter:
    """Writes the run times at most every five minutes, and only when they have changed.

    Args:
        client: the client of the API server.
        database: the source of run times.
        namespace: the namespace of the ConfigMap. The scheduler reads the ConfigMap in the namespace of its own Lease.
    """

    def __init__(self, client: Client, database: Database, namespace: str) -> None:
        self._client, self._database = client, database
        self._key = Key(namespace, CONFIG_MAP)
        self._written: str | None = None
        self._complaint = ""

    async def run(self) -> None:
        """Write the run times at intervals, until cancelled."""
        while True:
            try:
                await self.write()
            except (KubeError, DatabaseUnavailable) as error:
                if str(error) != self._complaint:
                    self._complaint = str(error)
                    log.warning("recorder.run_lengths_not_written", error=self._complaint)
                self._written = None
            await asyncio.sleep(PERIOD_SECONDS)

    async def write(self) -> bool:
        """Write the run times if they have changed; return whether they had."""
        now = int(self._client.now())
        runs = await self._database.runs(now - WINDOW_SECONDS, MOST_RUNS)
        text = await asyncio.to_thread(lambda: written_run_lengths(run_lengths(runs, now)))
        if self._written is None:
            self._written = await self._there()
        if text == self._written:
            return False
        body: dict[str, Any] = {"data": {DATA_KEY: text}}
        try:
            await self._client.patch(CONFIG_MAPS, self._key, body, PatchKind.MERGE)
        except NotFound:
            whole = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG_MAP, "namespace": self._key.namespace}}
            await self._client.create(CONFIG_MAPS, whole | body)
        self._written, self._complaint = text, ""
        return True

    async def _there(self) -> str:
        """Return the run times in the existing ConfigMap; empty when there are none."""
        try:
            found = await self._client.get(CONFIG_MAPS, self._key)
        except NotFound:
            return ""
        return str((found.get("data") or {}).get(DATA_KEY, ""))
