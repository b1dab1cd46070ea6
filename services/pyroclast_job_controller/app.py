"""Wires the job controller: which objects it watches, which controllers run, and when they run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from pyroclast.api.enums import JobEventReason
from pyroclast.api.records import Job, Queue
from pyroclast.api.types import COMMANDS, JOBS, PODS, QUEUES, Key, ResourceType
from pyroclast.kube.events.correlator import Reference
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.kube.http.client import Client
from pyroclast.kube.lease.scheduler_leases import SchedulerLeases
from pyroclast.kube.lease.shards import Shards
from pyroclast.kube.workqueue.rejections import subjects_of
from pyroclast.kube.workqueue.sharded_queue import ShardedQueue
from pyroclast.lifecycle.effects import Notice
from pyroclast.lifecycle.shards import from_flags
from pyroclast.rules.jobs.defaults import DEFAULT_SCHEDULER
from pyroclast.runtime.controllers import Controller, run_controllers, work_queue
from pyroclast.runtime.fields import is_enabled
from pyroclast.runtime.in_process.creation import exempt_namespaces, pods_checked
from pyroclast.runtime.in_process.jobs import VALIDATE, JobCreator
from pyroclast.runtime.leadership import ForeignWrites
from pyroclast.runtime.service import Service
from pyroclast_job_controller.caches import Caches, Shared
from pyroclast_job_controller.colocations import ColocationController
from pyroclast_job_controller.commands import CommandController, Orders, Targets, target_of
from pyroclast_job_controller.cronjobs import CronController
from pyroclast_job_controller.hyperjobs import HyperJobController
from pyroclast_job_controller.hypernode_discovery import DiscoveryController
from pyroclast_job_controller.hypernode_status import HyperNodeCaches, HyperNodeStatusController, configuration_key
from pyroclast_job_controller.job.actions import JobActions
from pyroclast_job_controller.job.controller import JobController
from pyroclast_job_controller.job.expiry import ExpiryController
from pyroclast_job_controller.job.memory import JobMemories, JobMemory
from pyroclast_job_controller.job.native_groups import NativePublisher
from pyroclast_job_controller.job.orphans import LostNodes
from pyroclast_job_controller.job.plugin_actions import PluginActions
from pyroclast_job_controller.job.pod_actions import PodActions
from pyroclast_job_controller.job.seats import SeatPublisher
from pyroclast_job_controller.job.watch import JobWatch
from pyroclast_job_controller.metrics import ControllerMetrics
from pyroclast_job_controller.podgroup.controller import GroupAdmission, PlainPodController
from pyroclast_job_controller.podgroup.workloads import Owners, WorkloadController
from pyroclast_job_controller.queues import QueueController
from pyroclast_job_controller.settings import (
    COLOCATION,
    CRON_JOB,
    GC,
    HYPER_JOB,
    HYPER_NODE,
    JOB,
    POD_GROUP,
    QUEUE,
    SHARDING,
    ControllerSettings,
)
from pyroclast_job_controller.sharding import ShardingController

Maker: TypeAlias = Callable[[Service, ControllerSettings, Shared], list[Controller]]


def _job_creator(service: Service, settings: ControllerSettings, shared: Shared) -> JobCreator:
    webhooks = settings.in_process_webhooks
    return JobCreator(
        shared.client,
        shared.caches.queue_views if VALIDATE in webhooks else None,
        service.traces,
        webhooks=webhooks,
        exempt=exempt_namespaces(settings),
        scheduler=next(iter(settings.scheduler_name), DEFAULT_SCHEDULER),
        options=settings.job_options(settings.scheduler_name or (DEFAULT_SCHEDULER,)),
    )


def _cron_jobs(service: Service, settings: ControllerSettings, shared: Shared) -> list[Controller]:
    queue = work_queue(service, shared, "cronjob")
    cron = CronController(shared, queue, _job_creator(service, settings, shared))
    return [Controller("cronjobs", queue, settings.worker_threads_for_cronjob, cron.reconcile, cron.enqueue_all, cron.about)]


def _hyper_nodes(service: Service, settings: ControllerSettings, shared: Shared) -> list[Controller]:
    counts, sources = work_queue(service, shared, "hypernode"), work_queue(service, shared, "discovery")
    watched = HyperNodeCaches(shared, configuration_key(settings.controller_configmap, settings.lease_namespace))
    status = HyperNodeStatusController(shared, counts, watched)
    discovery = DiscoveryController(shared, sources, watched)
    return [
        Controller("hypernodes", counts, 1, status.reconcile, status.enqueue_all, watched.about),
        Controller("discovery", sources, 2, discovery.reconcile, discovery.enqueue_all, watched.about_source),
    ]


def _colocation(service: Service, _: ControllerSettings, shared: Shared) -> list[Controller]:
    queue = work_queue(service, shared, "colocation")
    colocation = ColocationController(shared, queue, partial(service.watch, is_needed=False))
    return [Controller("colocation", queue, 1, colocation.reconcile, colocation.enqueue_all, colocation.about)]


def _hyper_jobs(service: Service, settings: ControllerSettings, shared: Shared) -> list[Controller]:
    queue = work_queue(service, shared, "hyperjob")
    hyper_jobs = HyperJobController(shared, queue, _job_creator(service, settings, shared))
    workers = settings.worker_threads_for_hyperjob
    return [Controller("hyperjobs", queue, workers, hyper_jobs.reconcile, hyper_jobs.enqueue_all, hyper_jobs.about)]


def _sharding(service: Service, settings: ControllerSettings, shared: Shared) -> list[Controller]:
    queue = work_queue(service, shared, "sharding")
    period = settings.shard_sync_period.total_seconds()
    flags = from_flags(settings.scheduler_configs, period=period, on_events=settings.enable_node_event_trigger)
    configuration = Key(settings.sharding_configmap_namespace, settings.sharding_configmap)
    sharding = ShardingController(shared, queue, flags, configuration)
    return [Controller("sharding", queue, 1, sharding.reconcile, sharding.enqueue_all, sharding.about)]


MAKERS: Final[Mapping[str, Maker]] = {
    CRON_JOB: _cron_jobs,
    HYPER_NODE: _hyper_nodes,
    HYPER_JOB: _hyper_jobs,
    COLOCATION: _colocation,
    SHARDING: _sharding,
}


COMPONENT: Final = "vc-controller-manager"
"""The component that is named as the source of our Events."""


async def run(service: Service, settings: ControllerSettings) -> None:
    """Watch the objects, and run the controllers while this replica leads.

    A standby also watches, so that it can take over at once.
    """
    client = await service.client()
    recorder = service.record_events(client, COMPONENT)
    shared = make_shared(service, client, recorder, settings)
    controllers = build(service, settings, shared)
    for informer in shared.caches.informers:
        service.watch(informer)
    for informer in shared.caches.optional:
        service.watch(informer, is_needed=False)
    await service.synced()
    service.spawn("schedulers", shared.schedulers.run())
    run_controllers(service, settings, shared, controllers)


def make_shared(service: Service, client: Client, recorder: EventRecorder, settings: ControllerSettings) -> Shared:
    """Return the clients, caches, clock and metrics that all controllers of the process use."""
    clock = asyncio.get_running_loop().time
    schedulers = settings.scheduler_name if is_enabled(POD_GROUP, settings.controllers) else ()
    return Shared(
        client,
        recorder,
        Shards(settings.leader_elect_shards),
        client.now,
        clock,
        Caches(client, clock, schedulers),
        ControllerMetrics(service.metrics),
        SchedulerLeases(client),
        foreign=ForeignWrites(client.now),
    )


def build(service: Service, settings: ControllerSettings, shared: Shared) -> list[Controller]:
    """Return the controllers that the settings select."""
    makers = {JOB: _jobs, QUEUE: _queues, POD_GROUP: _plain_pods, GC: _expiry, **MAKERS}
    enabled = [make for name, make in makers.items() if is_enabled(name, settings.controllers)]
    return [controller for make in enabled for controller in make(service, settings, shared)]


def _jobs(service: Service, settings: ControllerSettings, shared: Shared) -> list[Controller]:
    queue, commands = work_queue(service, shared, "job"), _command_queue(service, shared, JOBS)
    memories = JobMemories(JobMemory, shared.clock)

    def record(job: Job, notice: Notice) -> None:
        shared.recorder.event(Reference.of(job, JOBS), notice.type, notice.reason, notice.message)

    exempt = exempt_namespaces(settings)
    creator = pods_checked(shared.client, settings.in_process_webhooks, exempt, settings.scheduler_name)
    pods = PodActions(
        shared.client, creator, shared.caches.pods, shared.metrics.pod_created, queue.gets_on, waiting=queue.__len__
    )
    seats = SeatPublisher(creator, settings.scheduler_name, shared.clock, is_enabled=settings.place_before_pods)
    natives = NativePublisher(
        shared.client, settings.scheduler_name, record, shared.clock, is_enabled=settings.publish_native_groups
    )
    plugins = PluginActions(shared.client, record)
    actions = JobActions(shared, pods, plugins, seats=seats, admission=_group_admission(settings, shared), natives=natives)
    targets = Targets(JOBS, shared.caches.jobs, Job, lambda job: job.status.last_command, queue.add)
    orders = Orders(shared, targets, commands)
    may_lack_group = settings.one_pod_without_group and not settings.publish_native_groups
    if may_lack_group:
        shared.caches.watch(shared.caches.namespaces)
    patience = settings.give_up_lost_pods_after.total_seconds()
    jobs = JobController(
        shared,
        actions,
        memories,
        orders,
        queue,
        most_requeues=settings.max_requeue_num,
        lost_nodes=LostNodes(shared.client, shared.caches.pods, patience) if patience else None,
        own_schedulers=settings.scheduler_name,
        may_lack_group=may_lack_group,
    )
    watch = JobWatch(shared, queue, memories, partial(service.watch, is_needed=False))
    given = CommandController(shared, targets, orders, commands)
    reason = JobEventReason.JOB_STATUS_ERROR.value
    return [
        Controller("jobs", queue, settings.worker_threads, jobs.reconcile, watch.enqueue_all, jobs.about, reason),
        _commands("job-commands", shared, commands, given),
    ]


def _queues(service: Service, settings: ControllerSettings, shared: Shared) -> list[Controller]:
    queue, commands = work_queue(service, shared, "queue"), _command_queue(service, shared, QUEUES)
    targets = Targets(QUEUES, shared.caches.queues, Queue, lambda queue: queue.status.last_command, queue.add)
    orders = Orders(shared, targets, commands)
    queues = QueueController(shared, queue, orders, most_requeues=settings.max_requeue_num)
    given = CommandController(shared, targets, orders, commands)
    about = subjects_of(shared.caches.queues.get, QUEUES)
    return [
        Controller("queues", queue, settings.worker_threads_for_queue, queues.reconcile, queues.enqueue_all, about),
        _commands("queue-commands", shared, commands, given),
    ]


def _plain_pods(service: Service, settings: ControllerSettings, shared: Shared) -> list[Controller]:
    queue, sizes = work_queue(service, shared, "podgroup"), work_queue(service, shared, "workload")
    owners = Owners(shared)
    admission = _group_admission(settings, shared)
    pods = PlainPodController(
        shared, queue, owners, admission, settings.scheduler_name, inherit=settings.inherit_owner_annotations
    )
    workloads = WorkloadController(shared, sizes, owners, pods.renew)
    about = subjects_of(shared.caches.plain_pods.get, PODS)
    return [
        Controller("podgroups", queue, settings.worker_threads_for_podgroup, pods.reconcile, pods.enqueue_all, about),
        Controller("workloads", sizes, 1, workloads.reconcile, workloads.enqueue_all, owners.about),
    ]


def _group_admission(settings: ControllerSettings, shared: Shared) -> GroupAdmission:
    return GroupAdmission(shared, settings.in_process_webhooks, exempt_namespaces(settings))


def _expiry(service: Service, settings: ControllerSettings, shared: Shared) -> list[Controller]:
    queue = work_queue(service, shared, "gc")
    expiry = ExpiryController(shared, queue)
    about = subjects_of(shared.caches.jobs.get, JOBS)
    return [Controller("gc", queue, settings.worker_threads_for_gc, expiry.reconcile, expiry.enqueue_all, about)]


def _commands(name: str, shared: Shared, queue: ShardedQueue[Key], orders: CommandController[Any]) -> Controller:
    return Controller(name, queue, 1, orders.reconcile, orders.enqueue_all, subjects_of(shared.caches.commands.get, COMMANDS))


def _command_queue(service: Service, shared: Shared, target: ResourceType) -> ShardedQueue[Key]:
    """Return the work queue of Commands. Each Command belongs to the shard of its target."""

    def shard_of(key: Key) -> int | None:
        command = shared.caches.commands.get(key)
        return shared.shards.shard_of(target_of(command, target)) if command is not None else None

    return work_queue(service, shared, f"{target.kind.lower()}-command", shard_of)
