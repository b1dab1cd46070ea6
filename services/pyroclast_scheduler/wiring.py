"""Putting the service together: watches feed the cache, the cache wakes the loop, the loop's decisions are sent."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import cast

import structlog

from pyroclast.api import records
from pyroclast.api.types import NODES, POD_GROUPS, PODS, PRIORITY_CLASSES, QUEUES
from pyroclast.kube.client import Client
from pyroclast.kube.events import EventRecorder
from pyroclast.kube.informer import Informer
from pyroclast.runtime.leadership import lead
from pyroclast.runtime.service import Service
from pyroclast_scheduler import registry
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.framework import configuration
from pyroclast_scheduler.settings import SchedulerSettings
from pyroclast_scheduler.shell import debug
from pyroclast_scheduler.shell.binder import Binder
from pyroclast_scheduler.shell.bootstrap import ensure_queues
from pyroclast_scheduler.shell.configfile import ConfigurationFile
from pyroclast_scheduler.shell.evictor import Evictor
from pyroclast_scheduler.shell.gangs import GangKeeper
from pyroclast_scheduler.shell.loop import Loop
from pyroclast_scheduler.shell.metrics import SchedulerMetrics
from pyroclast_scheduler.shell.writer import Writer

__all__ = ["main"]

log = structlog.get_logger()


async def main(service: Service) -> None:
    """Set everything up, then decide while the Lease is held."""
    settings = cast("SchedulerSettings", service.settings)
    metrics = SchedulerMetrics(service.metrics)
    actions, plugins = registry.actions(), registry.plugins()
    file = ConfigurationFile(
        settings.scheduler_conf,
        partial(configuration.parse, actions=actions, plugins=plugins),
        is_required=settings.disable_default_scheduler_config,
    )
    file.warned = metrics.warnings.inc
    file.load()
    client = await service.client()
    recorder = EventRecorder(client, settings.scheduler_name[0] if len(settings.scheduler_name) == 1 else "volcano")
    cache = Cache(settings.scheduler_name, default_queue=settings.default_queue)
    binder = Binder(client, cache, recorder, metrics)
    evictor = Evictor(client, cache, recorder, metrics)
    writer = Writer(client, cache, recorder)
    binder.refused = writer.bind_refused
    loop = Loop(
        cache,
        lambda: file.current,
        actions=actions,
        plugins=plugins,
        binder=binder,
        evictor=evictor,
        writer=writer,
        keeper=GangKeeper(client, cache, recorder),
        metrics=metrics,
        period=settings.schedule_period.total_seconds(),
    )
    cache.on_change(loop.wake)
    service.add_check("cycle", loop.stalled)
    service.pages["/debug/snapshot"] = partial(debug.page, cache)
    service.spawn("events", recorder.run())
    service.spawn("configuration", file.follow())
    await ensure_queues(client, settings.default_queue)
    _watch(service, cache, settings, client)
    await service.synced()

    async def decide(_shard: int) -> None:
        log.info("scheduler.leading")
        async with asyncio.TaskGroup() as group:
            group.create_task(binder.run())
            group.create_task(evictor.run())
            group.create_task(writer.run())
            group.create_task(loop.run())

    service.spawn("leader", lead(client, settings, decide, recorder))


def _watch(service: Service, cache: Cache, settings: SchedulerSettings, client: Client) -> None:
    """Feed the cache. Pods come last, so that they find their nodes and groups."""
    wanted = _labels(settings.node_selector)
    nodes = Informer(client, NODES, records.Node)
    nodes.on_change(lambda old, new: cache.node_changed(_kept(old, wanted), _kept(new, wanted)))
    queues = Informer(client, QUEUES, records.Queue)
    queues.on_change(cache.queue_changed)
    groups = Informer(client, POD_GROUPS, records.PodGroup)
    groups.on_change(cache.group_changed)
    pods = Informer(client, PODS, records.Pod)
    pods.on_change(cache.pod_changed)
    for informer in (nodes, queues, groups, pods):
        service.watch(informer)
    if settings.priority_class:
        classes = Informer(client, PRIORITY_CLASSES, records.PriorityClass)
        classes.on_change(cache.priority_changed)
        service.watch(classes)


def _labels(selectors: tuple[str, ...]) -> frozenset[tuple[str, str]]:
    """The labels of `--node-selector`, each label:value."""
    return frozenset((label.strip(), value.strip()) for label, _, value in (each.partition(":") for each in selectors))


def _kept(node: records.Node | None, wanted: frozenset[tuple[str, str]]) -> records.Node | None:
    """`node` if it has any of the labels that are wanted, or none are."""
    if node is None or not wanted or wanted & node.metadata.labels.items():
        return node
    return None
