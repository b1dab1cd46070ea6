"""Wires the jobflow controller: which objects it watches, which controllers run, and when they run."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Final

from pyroclast.api.records import Queue
from pyroclast.api.types import JOB_TEMPLATES, QUEUES
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.kube.http.client import Client
from pyroclast.kube.lease.shards import Shards
from pyroclast.kube.watch.informer import Informer
from pyroclast.kube.workqueue.rejections import subjects_of
from pyroclast.kube.workqueue.sharded_queue import ShardedQueue
from pyroclast.runtime.controllers import Controller, run_controllers, work_queue
from pyroclast.runtime.fields import is_enabled
from pyroclast.runtime.in_process.creation import commands_checked, exempt_namespaces
from pyroclast.runtime.in_process.jobs import VALIDATE, JobCreator
from pyroclast.runtime.in_process.queues import QueueCache
from pyroclast.runtime.service import Service
from pyroclast_jobflow_controller.caches import Caches, FlowMetrics, Shared
from pyroclast_jobflow_controller.flow.actions import Creators, FlowActions
from pyroclast_jobflow_controller.flow.controller import FlowController
from pyroclast_jobflow_controller.flow.memory import FlowMemories, FlowMemory
from pyroclast_jobflow_controller.flow.probes import ProbeController, ProbeKey, Reach
from pyroclast_jobflow_controller.flow.watch import FlowWatch
from pyroclast_jobflow_controller.settings import FLOW, TEMPLATE, JobFlowSettings
from pyroclast_jobflow_controller.templates import TemplateController

COMPONENT: Final = "vc-controller-manager"
"""The component that is named as the source of our Events."""


async def run(service: Service, settings: JobFlowSettings) -> None:
    """Watch the objects, and run the controllers while this replica leads.

    A standby also watches, so that it can take over at once.
    """
    client = await service.client()
    recorder = service.record_events(client, COMPONENT)
    shared = make_shared(service, client, recorder, settings)
    async with AsyncExitStack() as stack:
        reach = await stack.enter_async_context(make_reach(settings))
        controllers = build(service, settings, shared, reach)
        for informer in shared.caches.informers:
            service.watch(informer)
        await service.synced()
        run_controllers(service, settings, shared, controllers)
        await service.forever()


def make_shared(service: Service, client: Client, recorder: EventRecorder, settings: JobFlowSettings) -> Shared:
    """Return the clients, caches, clock and metrics that all controllers of the process use."""
    clock = asyncio.get_running_loop().time
    shards = Shards(settings.leader_elect_shards)
    return Shared(client, recorder, shards, client.now, clock, Caches(client, clock), FlowMetrics(service.metrics))


def make_reach(settings: JobFlowSettings) -> Reach:
    """Return the HTTP and TCP prober of pods, with the timeout and the address rule of the settings."""
    return Reach(settings.probe_timeout.total_seconds(), local=settings.probe_local_addresses)


def build(service: Service, settings: JobFlowSettings, shared: Shared, reach: Reach) -> list[Controller]:
    """Return the controllers that the settings select."""
    controllers: list[Controller] = []
    if is_enabled(FLOW, settings.controllers):
        controllers += _flows(service, settings, shared, reach)
    if is_enabled(TEMPLATE, settings.controllers):
        queue = work_queue(service, shared, "jobtemplate")
        templates, about = TemplateController(shared, queue), subjects_of(shared.caches.templates.get, JOB_TEMPLATES)
        controllers.append(Controller("jobtemplates", queue, 1, templates.reconcile, templates.enqueue_all, about))
    return controllers


def _flows(service: Service, settings: JobFlowSettings, shared: Shared, reach: Reach) -> list[Controller]:
    queue = work_queue(service, shared, "jobflow")
    probe_queue: ShardedQueue[ProbeKey] = work_queue(
        service, shared, "jobflow-probe", lambda key: shared.shards.shard_of(key.flow)
    )
    memories = FlowMemories(FlowMemory, shared.clock)
    probes = ProbeController(shared.client, reach, memories, flows=queue, queue=probe_queue, settings=settings)
    shared.shards.on_give(probes.clear)
    actions = FlowActions(
        shared.client, _creators(service, settings, shared), shared.caches, queue.gets_on, are_traced=service.traces.are_taken
    )
    flows = FlowController(shared, actions, probes, memories, queue, most_requeues=settings.max_requeue_num)
    FlowWatch(shared, queue, memories)
    return [
        Controller("jobflows", queue, settings.worker_threads, flows.reconcile, flows.enqueue_all, flows.about),
        Controller(
            "jobflow-probes",
            probe_queue,
            settings.probe_workers,
            probes.reconcile,
            probes.enqueue_all,
            lambda key: flows.about(key.flow),
        ),
    ]


def _creators(service: Service, settings: JobFlowSettings, shared: Shared) -> Creators:
    webhooks, exempt = settings.in_process_webhooks, exempt_namespaces(settings)
    queues = None
    if VALIDATE in webhooks:
        queues = QueueCache(Informer(shared.client, QUEUES, Queue))
        shared.caches.watch(queues.informer)
    name = settings.scheduler_name
    options = settings.job_options((name,))
    jobs = JobCreator(shared.client, queues, service.traces, webhooks=webhooks, exempt=exempt, scheduler=name, options=options)
    return Creators(jobs, commands_checked(shared.client, webhooks, exempt))
