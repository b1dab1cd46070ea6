"""The controllers besides those of Jobs and queues, by the names with which `--controllers` selects them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeAlias

from pyroclast.api.types import Key
from pyroclast.rules.jobs.defaults import DEFAULT_SCHEDULER
from pyroclast.runtime.controllers import Controller, work_queue
from pyroclast.runtime.in_process.creation import exempt_namespaces
from pyroclast.runtime.in_process.jobs import VALIDATE, JobCreator
from pyroclast.runtime.service import Service
from pyroclast_job_controller import selection
from pyroclast_job_controller.colocation.controller import ColocationController
from pyroclast_job_controller.core.sharding.configuration import from_flags
from pyroclast_job_controller.cron.controller import CronController
from pyroclast_job_controller.hyperjob.controller import HyperJobController
from pyroclast_job_controller.hypernode.discovery import DiscoveryController
from pyroclast_job_controller.hypernode.status import HyperNodeStatusController
from pyroclast_job_controller.hypernode.watched import HyperNodeCaches, configuration_key
from pyroclast_job_controller.settings import ControllerSettings
from pyroclast_job_controller.sharding.controller import ShardingController
from pyroclast_job_controller.shared import Shared

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
    selection.CRON_JOB: _cron_jobs,
    selection.HYPER_NODE: _hyper_nodes,
    selection.HYPER_JOB: _hyper_jobs,
    selection.COLOCATION: _colocation,
    selection.SHARDING: _sharding,
}
