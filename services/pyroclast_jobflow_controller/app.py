"""The process of the jobflow controller: it watches flows and their templates, and works on them while leading."""

from __future__ import annotations

import asyncio

import structlog

from pyroclast.api.records import JobFlow, JobTemplate
from pyroclast.api.types import JOB_FLOWS, JOB_TEMPLATES
from pyroclast.kube.events import EventRecorder
from pyroclast.kube.informer import Informer
from pyroclast.runtime.leadership import lead
from pyroclast.runtime.service import Service
from pyroclast_jobflow_controller.settings import JobFlowSettings

__all__ = ["COMPONENT", "run"]

log = structlog.get_logger()

COMPONENT = "vc-controller-manager"
"""The source of our Events."""


async def run(service: Service, settings: JobFlowSettings) -> None:
    """Watch, and lead. A standby watches too, so that it can take over at once."""
    client = await service.client()
    recorder = EventRecorder(client, COMPONENT)
    flows = Informer(client, JOB_FLOWS, JobFlow)
    templates = Informer(client, JOB_TEMPLATES, JobTemplate)
    service.watch(flows)
    service.watch(templates)
    service.spawn("events", recorder.run())
    await service.synced()

    async def work(shard: int) -> None:
        log.info("flows.led", shard=shard, flows=len(flows), templates=len(templates))
        await asyncio.Event().wait()

    service.spawn("leading", lead(client, settings, work, recorder))
