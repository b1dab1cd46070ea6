"""Putting the service together: watches feed the cache, the cache wakes the loop, the loop's decisions are sent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from functools import partial
from typing import cast

import structlog

from pyroclast.api import records
from pyroclast.api.records.meta import Record
from pyroclast.api.types import LEASES, NODES, POD_GROUPS, PODS, PRIORITY_CLASSES, QUEUES, ResourceType
from pyroclast.kube.client import Client
from pyroclast.kube.errors import KubeError, NotFound
from pyroclast.kube.events import Reference
from pyroclast.kube.informer import Informer
from pyroclast.runtime.leadership import lead
from pyroclast.runtime.service import Service
from pyroclast_scheduler import registry
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.model.objects import Watch
from pyroclast_scheduler.session import configuration
from pyroclast_scheduler.session.session import PluginFactory
from pyroclast_scheduler.settings import SchedulerSettings
from pyroclast_scheduler.shell import debug
from pyroclast_scheduler.shell.binder import Binder
from pyroclast_scheduler.shell.bootstrap import ensure_queues
from pyroclast_scheduler.shell.complaints import Complaints
from pyroclast_scheduler.shell.configfile import ConfigurationFile
from pyroclast_scheduler.shell.evictor import Evictor
from pyroclast_scheduler.shell.gangs import GangKeeper
from pyroclast_scheduler.shell.loop import Loop
from pyroclast_scheduler.shell.metrics import SchedulerMetrics
from pyroclast_scheduler.shell.usage import Collector
from pyroclast_scheduler.shell.verifier import Verifier
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
    complaints = Complaints(metrics)
    file.warned, file.refused = complaints.passed_over, complaints.refused
    file.load()
    client = await service.client()
    recorder = service.record_events(client, settings.scheduler_name[0] if len(settings.scheduler_name) == 1 else "volcano")
    name = settings.leader_elect_resource_name
    complaints.tell(recorder, Reference(LEASES.api_version, LEASES.kind, settings.lease_namespace, name, ""))
    cache = Cache(settings.scheduler_name, default_queue=settings.default_queue, now=time.monotonic)
    binder = Binder(client, cache, recorder, metrics)
    evictor = Evictor(client, cache, recorder, metrics)
    verifier = Verifier(client, cache, now=time.monotonic)
    writer = Writer(client, cache, recorder)
    binder.refused = writer.bind_refused
    usage = Collector(client, lambda: file.current)
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
        recorder=recorder,
        usage=usage,
        now=client.now,
        period=settings.schedule_period.total_seconds(),
    )
    loop.warned = complaints.passed_over
    loop.scheduler = settings.scheduler_name[0]
    cache.on_change(loop.wake)
    service.add_check("cycle", loop.stalled)
    service.pages["/debug/snapshot"] = partial(debug.page, cache)
    service.spawn("configuration", file.follow())
    await ensure_queues(client, settings.default_queue)
    _watch(service, cache, settings, client)
    watches = _PluginWatches(service, cache, client, plugins)
    await watches.discover()
    watches.ensure(file.current)

    def reconfigured(changed: configuration.Configuration) -> None:
        watches.ensure(changed)
        cache.stale()  # what no session could do anything for may be another matter now

    file.changed = reconfigured
    await service.synced()

    async def decide(_shard: int) -> None:
        log.info("scheduler.leading")
        async with asyncio.TaskGroup() as group:
            group.create_task(binder.run())
            group.create_task(evictor.run())
            group.create_task(writer.run())
            group.create_task(loop.run())
            group.create_task(verifier.run())
            group.create_task(usage.run())

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


class _PluginWatches:
    """Watches what the configured plugins ask for, each kind once; what was asked for once stays watched."""

    def __init__(self, service: Service, cache: Cache, client: Client, plugins: Mapping[str, PluginFactory]) -> None:
        self._service = service
        self._cache = cache
        self._client = client
        self._plugins = plugins
        self._watched: set[Watch] = set()
        self._unknown: set[ResourceType] = set()

    async def discover(self) -> None:
        """Find out which of the optional kinds the server does not know: asked once, at the start."""
        offered = {watch for plugin in self._plugins.values() for watch in getattr(plugin, "watches", ()) if watch.is_optional}
        for kind in {watch.kind for watch in offered}:
            try:
                await self._client.list_page(kind, "", {"limit": "1"})
            except NotFound:
                self._unknown.add(kind)
                log.info("kind.not_served", kind=kind.qualified)
            except KubeError as error:  # it may be served; the watch says what is wrong
                log.warning("kind.not_asked", kind=kind.qualified, error=str(error))

    def ensure(self, settings: configuration.Configuration) -> None:
        """Begin to watch what plugins of `settings` need and nobody needed before."""
        names = [entry.name for tier in settings.tiers for entry in tier if entry.name in self._plugins]
        for watch in (each for name in names for each in getattr(self._plugins[name], "watches", ())):
            if watch not in self._watched and watch.kind not in self._unknown:
                self._watched.add(watch)
                informer: Informer[Record] = Informer(self._client, watch.kind, watch.record)
                informer.on_change(self._cache.node_object_changed if watch.is_of_node else self._cache.object_changed)
                self._service.watch(informer)


def _labels(selectors: tuple[str, ...]) -> frozenset[tuple[str, str]]:
    """The labels of `--node-selector`, each label:value."""
    return frozenset((label.strip(), value.strip()) for label, _, value in (each.partition(":") for each in selectors))


def _kept(node: records.Node | None, wanted: frozenset[tuple[str, str]]) -> records.Node | None:
    """`node` if it has any of the labels that are wanted, or none are."""
    if node is None or not wanted or wanted & node.metadata.labels.items():
        return node
    return None
