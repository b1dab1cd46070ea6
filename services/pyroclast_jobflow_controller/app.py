"""The process of the jobflow controller: what is watched, which controllers run on it, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from pyroclast.api.types import JOB_FLOWS, JOB_TEMPLATES
from pyroclast.kube.events.recorder import EventRecorder, Reference
from pyroclast.kube.http.client import Client
from pyroclast.kube.lease.shards import Shards
from pyroclast.kube.workqueue.rejections import Refusals, subjects_of
from pyroclast.kube.workqueue.sharded_queue import ShardedQueue
from pyroclast.kube.workqueue.workers import run_workers
from pyroclast.runtime.leadership import lead
from pyroclast.runtime.selection import is_enabled
from pyroclast.runtime.service import Service
from pyroclast_jobflow_controller.caches import Caches
from pyroclast_jobflow_controller.flow.actions import FlowActions
from pyroclast_jobflow_controller.flow.controller import FlowController
from pyroclast_jobflow_controller.flow.memory import Memories
from pyroclast_jobflow_controller.flow.probes import ProbeController, ProbeKey
from pyroclast_jobflow_controller.flow.reach import Reach
from pyroclast_jobflow_controller.flow.watch import FlowWatch
from pyroclast_jobflow_controller.metrics import FlowMetrics
from pyroclast_jobflow_controller.settings import FLOW, TEMPLATE, JobFlowSettings
from pyroclast_jobflow_controller.shared import Shared
from pyroclast_jobflow_controller.template_controller import TemplateController

__all__ = ["COMPONENT", "Controller", "build", "make_reach", "make_shared", "run", "work"]

COMPONENT: Final = "vc-controller-manager"
"""The source of our Events."""

_LONGEST_DELAY: Final = 5.0
"""Seconds until what failed is tried again: an API server that comes back is soon noticed."""

_LONGEST_STANDSTILL: Final = 600.0
"""Seconds in which nothing of the work on one key is done: a request ends long before that, with or without an answer."""

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Controller:
    """A queue with those who work on it.

    `enqueue_all` puts everything on the queue that is ours. `about`: the object of a key, on which an Event says what we are
    refused.
    """

    name: str
    queue: ShardedQueue[Any]
    workers: int
    reconcile: Callable[[Any], Awaitable[None]]
    enqueue_all: Callable[[], None]
    about: Callable[[Any], Reference | None]


async def run(service: Service, settings: JobFlowSettings) -> None:
    """Watch, and work while leading. A standby watches too, so that it can take over at once."""
    client = await service.client()
    recorder = service.record_events(client, COMPONENT)
    shared = make_shared(service, client, recorder, settings)
    async with AsyncExitStack() as stack:
        reach = await stack.enter_async_context(make_reach(settings))
        controllers = build(service, settings, shared, reach)
        for informer in shared.caches.informers:
            service.watch(informer)
        for controller in controllers:
            service.add_check(f"work-{controller.name}", partial(stuck, controller))
        await service.synced()
        service.spawn("leading", lead(client, settings, partial(work, shared, controllers), recorder))
        await service.forever()


async def work(shared: Shared, controllers: Sequence[Controller], shard: int) -> None:
    """Work on a shard until cancelled; its Lease is given back only when the last worker has stopped and all is forgotten."""
    shared.shards.take(shard)
    try:
        async with asyncio.TaskGroup() as workers:
            for controller in controllers:
                queue = controller.queue.open(shard)
                refusals = Refusals(shared.recorder, controller.about)
                workers.create_task(run_workers(queue, controller.reconcile, controller.workers, refusals))
                controller.enqueue_all()
    finally:
        for controller in controllers:
            controller.queue.close(shard)
        shared.shards.give(shard)


def make_shared(service: Service, client: Client, recorder: EventRecorder, settings: JobFlowSettings) -> Shared:
    """What the controllers have in common."""
    clock = asyncio.get_running_loop().time
    shards = Shards(settings.leader_elect_shards)
    return Shared(client, Caches(client, clock), recorder, FlowMetrics(service.metrics), shards, client.now, clock)


def make_reach(settings: JobFlowSettings) -> Reach:
    """The way to pods that the settings allow."""
    return Reach(settings.probe_timeout.total_seconds(), local=settings.probe_local_addresses)


def build(service: Service, settings: JobFlowSettings, shared: Shared, reach: Reach) -> list[Controller]:
    """The controllers that the settings select."""
    controllers: list[Controller] = []
    if is_enabled(FLOW, settings.controllers):
        controllers += _flows(service, settings, shared, reach)
    if is_enabled(TEMPLATE, settings.controllers):
        queue = _queue(service, shared, "jobtemplate", shared.shards.shard_of)
        templates, about = TemplateController(shared, queue), subjects_of(shared.caches.templates, JOB_TEMPLATES)
        controllers.append(Controller("jobtemplates", queue, 1, templates.reconcile, templates.enqueue_all, about))
    return controllers


def _flows(service: Service, settings: JobFlowSettings, shared: Shared, reach: Reach) -> list[Controller]:
    queue = _queue(service, shared, "jobflow", shared.shards.shard_of)
    probe_queue: ShardedQueue[ProbeKey] = _queue(service, shared, "jobflow-probe", lambda key: shared.shards.shard_of(key.flow))
    memories = Memories(shared.clock)
    shared.shards.on_give(memories.clear)
    probes = ProbeController(shared.client, reach, memories, flows=queue, queue=probe_queue, settings=settings)
    shared.shards.on_give(probes.clear)
    actions = FlowActions(shared.client, shared.caches, queue.gets_on)
    flows = FlowController(shared, actions, probes, memories, queue, most_requeues=settings.max_requeue_num)
    watch, about = FlowWatch(shared, queue, memories), subjects_of(shared.caches.flows, JOB_FLOWS)
    return [
        Controller("jobflows", queue, settings.worker_threads, flows.reconcile, watch.enqueue_all, about),
        Controller(
            "jobflow-probes",
            probe_queue,
            settings.probe_workers,
            probes.reconcile,
            probes.enqueue_all,
            lambda key: about(key.flow),
        ),
    ]


def _queue(service: Service, shared: Shared, name: str, shard_of: Callable[[K], int | None]) -> ShardedQueue[K]:
    return ShardedQueue(
        name,
        shards=shared.shards.total,
        shard_of=shard_of,
        longest_delay=_LONGEST_DELAY,
        now=shared.now,
        observer=service.observer,
    )


def stuck(controller: Controller) -> str | None:
    """Why the process should be restarted: the work on one key does not get on."""
    seconds = controller.queue.longest_standstill()
    return f"the work on one key has not got on for {seconds:.0f} s" if seconds > _LONGEST_STANDSTILL else None
