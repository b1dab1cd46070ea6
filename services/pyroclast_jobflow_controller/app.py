"""The process of the jobflow controller: it watches flows, their templates and Jobs, and works on them while leading."""

from __future__ import annotations

import asyncio

import structlog

from pyroclast.api import keys
from pyroclast.api.records import Job, JobFlow, JobTemplate
from pyroclast.api.types import JOB_FLOWS, JOB_TEMPLATES, JOBS
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
    jobs = Informer(client, JOBS, Job, label_selector=keys.CREATED_BY_JOB_FLOW)
    service.watch(flows)
    service.watch(templates)
    service.watch(jobs)
    service.spawn("events", recorder.run())
    await service.synced()

    async def work(shard: int) -> None:
        log.info("flows.led", shard=shard, flows=len(flows), templates=len(templates), jobs=len(jobs))
        await asyncio.Event().wait()

    service.spawn("leading", lead(client, settings, work, recorder))
