"""An API server and a database, and recorders between them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry
from sqlalchemy import select

from pyroclast.api import crds
from pyroclast.api.types import COMMANDS, CRDS, CRON_JOBS, HYPER_JOBS, HYPER_NODES, JOB_FLOWS, JOBS, POD_GROUPS, PODS, QUEUES, Key
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast_recorder.app import Recorder, RecorderMetrics
from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.tables import pods
from pyroclast_recorder.settings import RecorderSettings
from tests.unit.running import RunningServer

FOLLOWED = {kind.qualified for kind in (JOBS, POD_GROUPS, JOB_FLOWS, CRON_JOBS, HYPER_JOBS, HYPER_NODES, QUEUES, COMMANDS)}
LONG_AGO = "2026-01-01T00:00:00Z"


def pod(name: str, phase: str = "Running", **status: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": LONG_AGO}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulerName": "volcano", "nodeName": "n1", "containers": [container], "terminationGracePeriodSeconds": 0},
        "status": {"phase": phase, "conditions": [scheduled], **status},
    }


def ended(at: str, code: int = 0, reason: str = "Completed") -> dict[str, Any]:
    terminated = {"exitCode": code, "reason": reason, "finishedAt": at}
    return {"containerStatuses": [{"name": "c", "image": "i", "imageID": "", "state": {"terminated": terminated}}]}


@dataclass
class Laboratory:
    """An API server, a database, and recorders to start and to end."""

    server: RunningServer
    client: Client
    database: Database
    running: list[asyncio.Task[None]] = field(default_factory=list)

    def start(self, database: Any = None) -> Recorder:
        settings = RecorderSettings()
        recorder = Recorder(self.client, database or self.database, settings, RecorderMetrics(CollectorRegistry()))
        self.running.append(asyncio.create_task(recorder.record(0)))
        return recorder

    async def stop(self) -> None:
        async with asyncio.timeout(60):  # what was seen first must be known to reach somewhere
            while "pods" not in await self.database.cursors():
                await asyncio.sleep(0.05)
        for task in self.running:
            task.cancel()
        await asyncio.gather(*self.running, return_exceptions=True)
        self.running.clear()

    async def put(self, body: dict[str, Any]) -> None:
        status = body["status"]
        made = await self.client.create(PODS, body)
        await self.client.patch(
            PODS, Key("default", made["metadata"]["name"]), {"status": status}, PatchKind.MERGE, subresource="status"
        )

    async def end(self, name: str, **status: Any) -> None:
        body = {"status": {"phase": "Succeeded", **status}}
        await self.client.patch(PODS, Key("default", name), body, PatchKind.MERGE, subresource="status")

    async def rows(self, table: Any) -> dict[str, Any]:
        async with self.database.reading() as connection:
            found = await connection.execute(select(table).where(table.c.cluster == self.database.cluster))
            return {row.get("name") or row["kind"]: dict(row) for row in found.mappings()}

    async def until(self, holds: Callable[[dict[str, Any]], object], table: Any = pods) -> dict[str, Any]:
        async with asyncio.timeout(60):
            while not holds(rows := await self.rows(table)):
                await asyncio.sleep(0.05)
        return rows


async def define(client: Client) -> None:
    """Create the CRDs of the kinds that a recorder follows."""
    for crd in crds.custom_resource_definitions():
        if crd["metadata"]["name"] in FOLLOWED:
            await client.create(CRDS, crd)
