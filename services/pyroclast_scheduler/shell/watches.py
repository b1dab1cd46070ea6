"""The watches of the scheduler: the kinds that every session needs, those that configured plugins read, and native PodGroups.

The API of native PodGroups may be enabled while the scheduler runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, Protocol

import structlog

from pyroclast.api import records
from pyroclast.api.records.meta import ObjectRecord, Record
from pyroclast.api.types import (
    BATCH_JOBS,
    NAMESPACES,
    NATIVE_POD_GROUPS,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    ResourceType,
)
from pyroclast.kube.basics.errors import KubeError, NotFound
from pyroclast.kube.http.client import Client
from pyroclast.kube.http.native_groups import LOOK_SECONDS, VERSIONS, composite_kind_served, kind_served
from pyroclast.kube.watch.informer import Informer
from pyroclast.runtime.service import Service
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.model.objects import Watch
from pyroclast_scheduler.session import configuration
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.session import PluginFactory
from pyroclast_scheduler.settings import SchedulerSettings

log = structlog.get_logger()


_FIRST_LIST_SECONDS: Final = 10.0  # how long decisions wait for the first list, since running gangs are unknown without it
_Watched = Callable[[records.Pod | None, records.Pod | None], None]


class _GroupChange(Protocol):
    """A callback for each change of a PodGroup: the old and new state (None: it does not exist), and its resource type."""

    def __call__(self, old: records.NativePodGroup | None, new: records.NativePodGroup | None, kind: ResourceType, /) -> None: ...


class NativeWatch:
    """Watches PodGroups of scheduling.k8s.io once the API server serves them, and the objects that name their queues.

    `take`: receives the changes. `watch`: runs an informer as long as the service. `pause`: seconds between two checks of the API
    server.
    """

    def __init__(
        self,
        client: Client,
        cache: Cache,
        take: _GroupChange,
        watch: Callable[[Informer[Any]], None],
        *,
        pause: float = LOOK_SECONDS,
    ) -> None:
        self._client = client
        self._cache = cache
        self._take = take
        self._watch = watch
        self._pause = pause
        self._followed: dict[ResourceType, Informer[Any]] = {}
        self._is_absence_told = False
        self._trouble = ""

    async def run(self) -> None:
        """Check the API server at intervals until cancelled."""
        while True:
            await asyncio.sleep(self._pause)
            await self.look()

    async def start(self) -> None:
        """Check the API server for the first time, and wait for the first lists for a limited time."""
        await self.look()
        try:
            async with asyncio.timeout(_FIRST_LIST_SECONDS):
                for informer in self._followed.values():
                    await informer.synced()
        except TimeoutError:
            log.warning("native_groups.not_listed", seconds=_FIRST_LIST_SECONDS)

    async def look(self) -> None:
        """Check once which kinds the API server serves, and watch those that are not watched yet."""
        try:
            kind = await kind_served(self._client)
            composites = await composite_kind_served(self._client) if kind is not None else None
        except KubeError as error:  # the next look may succeed
            if self._trouble != str(error):
                self._trouble = str(error)
                log.warning("native_groups.not_asked", error=self._trouble)
            return
        self._trouble = ""
        if composites is not None and composites not in self._followed:
            self._follow_composites(composites)
        if kind is None:
            if not self._is_absence_told:
                self._is_absence_told = True
                log.info("native_groups.not_served", group=NATIVE_POD_GROUPS.group, versions=VERSIONS)
        elif kind not in self._followed:
            self._follow(kind)

    def _follow(self, kind: ResourceType) -> None:
        log.info("native_groups.served", version=kind.version)
        groups = Informer(self._client, kind, records.NativePodGroup)
        groups.on_change(lambda old, new: self._take(old, new, kind))
        if not any(each.kind == kind.kind for each in self._followed):
            jobs = Informer(self._client, BATCH_JOBS, ObjectRecord)
            jobs.on_change(self._cache.natives.job_changed)
            namespaces = Informer(self._client, NAMESPACES, records.Namespace)
            namespaces.on_change(self._cache.natives.namespace_changed)
            self._watch(jobs)
            self._watch(namespaces)
        self._followed[kind] = groups
        self._watch(groups)

    def _follow_composites(self, kind: ResourceType) -> None:
        log.info("native_groups.composites_served", version=kind.version)
        composites = Informer(self._client, kind, records.CompositePodGroup)
        composites.on_change(lambda old, new: self._cache.natives.composite_changed(old, new, kind))
        self._followed[kind] = composites
        self._cache.natives.composites_served()
        self._watch(composites)


class _SharedChanges(Protocol):
    """Callbacks for the kinds that schedulers divide among themselves: the object before and after, None if it does not exist."""

    def node_changed(self, old: records.Node | None, new: records.Node | None) -> None: ...
    def queue_changed(self, old: records.Queue | None, new: records.Queue | None) -> None: ...
    def group_changed(self, old: records.PodGroup | None, new: records.PodGroup | None) -> None: ...
    def pod_changed(self, old: records.Pod | None, new: records.Pod | None) -> None: ...


def watch(
    service: Service, taker: _SharedChanges, cache: Cache, settings: SchedulerSettings, client: Client, *, watched: _Watched
) -> None:
    """Pass the changes of watches to the cache through `taker`. Pods are watched last, after their nodes and groups."""
    pairs = (each.partition(":") for each in settings.node_selector)
    wanted = frozenset((label.strip(), value.strip()) for label, _, value in pairs)
    nodes = Informer(client, NODES, records.Node)
    nodes.on_change(lambda old, new: taker.node_changed(_kept(old, wanted), _kept(new, wanted)))
    nodes.on_fault(lambda _: cache.stale())
    cache.undecodable_nodes = nodes.undecodable
    queues = Informer(client, QUEUES, records.Queue)
    queues.on_change(taker.queue_changed)
    groups = Informer(client, POD_GROUPS, records.PodGroup)
    groups.on_change(taker.group_changed)
    pods = Informer(client, PODS, records.Pod)
    pods.on_change(lambda old, new: _observe(old, new, settings.scheduler_name, watched))
    pods.on_change(taker.pod_changed)
    for informer in (nodes, queues, groups, pods):
        service.watch(informer)
    if settings.priority_class:
        classes = Informer(client, PRIORITY_CLASSES, records.PriorityClass)
        classes.on_change(cache.priority_changed)
        service.watch(classes)


class PluginWatches:
    """Watches the kinds that the configured plugins read, each once. A watch stays after its plugin is removed."""

    def __init__(self, service: Service, cache: Cache, client: Client, plugins: Mapping[str, PluginFactory]) -> None:
        self._service = service
        self._cache = cache
        self._client = client
        self._plugins = plugins
        self._watched: set[Watch] = set()
        self._unknown: set[ResourceType] = set()

    async def discover(self) -> None:
        """Find the optional kinds that the API server does not serve, once at the start."""
        offered = {watch for plugin in self._plugins.values() for watch in getattr(plugin, "watches", ()) if watch.is_optional}
        for kind in {watch.kind for watch in offered}:
            try:
                await self._client.list_page(kind, "", {"limit": "1"})
            except NotFound:
                self._unknown.add(kind)
                log.info("kind.not_served", kind=kind.qualified)
            except KubeError as error:  # the kind may be served; the watch reports the error
                log.warning("kind.not_asked", kind=kind.qualified, error=str(error))

    def ensure(self, settings: configuration.Configuration) -> None:
        """Start the watches that plugins of `settings` need and that do not exist yet."""
        entries = [entry for tier in settings.tiers for entry in tier if entry.name in self._plugins]
        plugins = [(self._plugins[entry.name], Arguments(entry.arguments)) for entry in entries]
        always = [watch for plugin, _ in plugins for watch in getattr(plugin, "watches", ())]
        further = [watch for plugin, given in plugins for watch in getattr(plugin(given), "further_watches", ())]
        for watch in always + further:
            if watch not in self._watched and watch.kind not in self._unknown:
                self._watched.add(watch)
                self._cache.objects.kinds[watch.record] = watch.kind
                namespace, _, name = watch.key.partition("/")
                one = f"metadata.name={name}" if name else ""
                informer: Informer[Record] = Informer(
                    self._client, watch.kind, watch.record, namespace=namespace, field_selector=one
                )
                informer.on_change(self._cache.node_object_changed if watch.is_of_node else self._cache.object_changed)
                self._service.watch(informer)


def _observe(old: records.Pod | None, new: records.Pod | None, names: Collection[str], watched: _Watched) -> None:
    if new is not None and new.spec.scheduler_name in names:
        watched(old, new)


def _kept(node: records.Node | None, wanted: frozenset[tuple[str, str]]) -> records.Node | None:
    """Return `node` if it has one of the labels `wanted`, or if none are wanted; else None."""
    return node if node is None or not wanted or wanted & node.metadata.labels.items() else None
