"""The process of the job controller: what is watched, which controllers run on it, and when."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from pyroclast.api.records import Job
from pyroclast.api.types import JOBS, QUEUES, Key
from pyroclast.kube.client import Client
from pyroclast.kube.events import EventRecorder, Reference
from pyroclast.kube.queue import WorkQueue
from pyroclast.kube.workers import run_workers
from pyroclast.lifecycle.views import Notice
from pyroclast.runtime.leadership import lead
from pyroclast.runtime.service import Service
from pyroclast_job_controller import selection
from pyroclast_job_controller.caches import Caches
from pyroclast_job_controller.commands import CommandController
from pyroclast_job_controller.expiry import ExpiryController
from pyroclast_job_controller.job_actions import JobActions
from pyroclast_job_controller.job_watch import JobWatch
from pyroclast_job_controller.jobs import JobController
from pyroclast_job_controller.memory import Memories
from pyroclast_job_controller.metrics import ControllerMetrics
from pyroclast_job_controller.plainpods import PlainPodController
from pyroclast_job_controller.plugin_actions import PluginActions
from pyroclast_job_controller.pod_actions import PodActions
from pyroclast_job_controller.queues import QueueController
from pyroclast_job_controller.settings import ControllerSettings
from pyroclast_job_controller.shards import Shards
from pyroclast_job_controller.shared import Shared

__all__ = ["COMPONENT", "run"]

COMPONENT: Final = "vc-controller-manager"
"""The source of our Events."""

_LONGEST_DELAY: Final = 5.0
"""Seconds until what failed is tried again: an API server that comes back is soon noticed."""

_LONGEST_WORK: Final = 600.0
"""Seconds: creating ten thousand pods against a slow API server takes less."""


@dataclass(frozen=True, slots=True)
class Controller:
    """A queue with those who work on it. `look_at_all` puts everything on the queue that is ours."""

    name: str
    queue: WorkQueue[Key]
    workers: int
    reconcile: Callable[[Key], Awaitable[None]]
    look_at_all: Callable[[], None]


async def run(service: Service, settings: ControllerSettings) -> None:
    """Watch, and work while leading. A standby watches too, so that it can take over at once."""
    client = await service.client()
    recorder = EventRecorder(client, COMPONENT)
    shared = make_shared(service, client, recorder, settings)
    controllers = build(service, settings, shared)
    for informer in shared.caches.informers:
        service.watch(informer)
    service.spawn("events", recorder.run())
    for controller in controllers:
        service.add_check(f"work-{controller.name}", partial(_stuck, controller))
    await service.synced()

    async def work(shard: int) -> None:
        """Work until cancelled; the Lease is given back only when the last worker has stopped."""
        shared.shards.take(shard)
        try:
            async with asyncio.TaskGroup() as workers:
                for controller in controllers:
                    workers.create_task(run_workers(controller.queue, controller.reconcile, controller.workers))
                    controller.look_at_all()
        finally:
            shared.shards.give(shard)

    service.spawn("leading", lead(client, settings, work, recorder))


def _stuck(controller: Controller) -> str | None:
    """Why the process should be restarted: the work on one key does not end."""
    seconds = controller.queue.longest_work()
    return f"at work on one key for {seconds:.0f} s" if seconds > _LONGEST_WORK else None


def make_shared(service: Service, client: Client, recorder: EventRecorder, settings: ControllerSettings) -> Shared:
    """What the controllers have in common."""
    clock = asyncio.get_running_loop().time
    schedulers = settings.scheduler_name if selection.is_enabled(selection.POD_GROUP, settings.controllers) else ()
    return Shared(
        client,
        Caches(client, clock, schedulers),
        recorder,
        ControllerMetrics(service.metrics),
        Shards(settings.leader_elect_shards),
        time.time,
        clock,
    )


def build(service: Service, settings: ControllerSettings, shared: Shared) -> list[Controller]:
    """The controllers that the settings select."""
    makers = {
        selection.JOB: _jobs,
        selection.QUEUE: _queues,
        selection.POD_GROUP: _plain_pods,
        selection.GC: _expiry,
    }
    enabled = [make for name, make in makers.items() if selection.is_enabled(name, settings.controllers)]
    return [controller for make in enabled for controller in make(service, settings, shared)]


def _jobs(service: Service, settings: ControllerSettings, shared: Shared) -> list[Controller]:
    queue, commands = _queue(service, "job"), _queue(service, "job-command")
    memories = Memories(shared.clock)

    def tell(job: Job, notice: Notice) -> None:
        shared.recorder.event(Reference.of(job, JOBS), notice.type, notice.reason.value, notice.message)

    pods = PodActions(shared.client, shared.caches.pods, shared.metrics.pod_created)
    actions = JobActions(shared.client, shared.caches, pods, PluginActions(shared.client, tell))
    jobs = JobController(shared, actions, memories, queue, most_requeues=settings.max_requeue_num)
    watch = JobWatch(shared, queue, memories)
    orders = CommandController(shared, JOBS, commands, jobs.order)
    return [
        Controller("jobs", queue, settings.worker_threads, jobs.reconcile, watch.look_at_all),
        Controller("job-commands", commands, 1, orders.reconcile, orders.look_at_all),
    ]


def _queues(service: Service, settings: ControllerSettings, shared: Shared) -> list[Controller]:
    queue, commands = _queue(service, "queue"), _queue(service, "queue-command")
    queues = QueueController(shared, queue, most_requeues=settings.max_requeue_num)
    orders = CommandController(shared, QUEUES, commands, queues.order)
    return [
        Controller("queues", queue, settings.worker_threads_for_queue, queues.reconcile, queues.look_at_all),
        Controller("queue-commands", commands, 1, orders.reconcile, orders.look_at_all),
    ]


def _plain_pods(service: Service, settings: ControllerSettings, shared: Shared) -> list[Controller]:
    queue = _queue(service, "podgroup")
    pods = PlainPodController(shared, queue, settings.scheduler_name, inherit=settings.inherit_owner_annotations)
    return [Controller("podgroups", queue, settings.worker_threads_for_podgroup, pods.reconcile, pods.look_at_all)]


def _expiry(service: Service, settings: ControllerSettings, shared: Shared) -> list[Controller]:
    queue = _queue(service, "gc")
    expiry = ExpiryController(shared, queue)
    return [Controller("gc", queue, settings.worker_threads_for_gc, expiry.reconcile, expiry.look_at_all)]


def _queue(service: Service, name: str) -> WorkQueue[Key]:
    return WorkQueue(name, longest_delay=_LONGEST_DELAY, observer=service.observer)
