"""What is watched: what every session needs, and the further kinds that configured plugins ask for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

import structlog

from pyroclast.api import records
from pyroclast.api.records.meta import Record
from pyroclast.api.types import NODES, POD_GROUPS, PODS, PRIORITY_CLASSES, QUEUES, ResourceType
from pyroclast.kube.basics.errors import KubeError, NotFound
from pyroclast.kube.http.client import Client
from pyroclast.kube.watch.informer import Informer
from pyroclast.runtime.service import Service
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.model.objects import Watch
from pyroclast_scheduler.session import configuration
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.session import PluginFactory
from pyroclast_scheduler.settings import SchedulerSettings

__all__ = ["PluginWatches", "watch"]

log = structlog.get_logger()


_Watched = Callable[[records.Pod | None, records.Pod | None], None]


class SharedChanges(Protocol):
    """Told of each change of what is divided among schedulers, by kind: the object before and after; None: it is not there."""

    def node_changed(self, old: records.Node | None, new: records.Node | None) -> None: ...
    def queue_changed(self, old: records.Queue | None, new: records.Queue | None) -> None: ...
    def group_changed(self, old: records.PodGroup | None, new: records.PodGroup | None) -> None: ...
    def pod_changed(self, old: records.Pod | None, new: records.Pod | None) -> None: ...


def watch(
    service: Service, taker: SharedChanges, cache: Cache, settings: SchedulerSettings, client: Client, *, watched: _Watched
) -> None:
    """Feed the cache through `taker`. Pods come last, so that they find their nodes and groups."""
    wanted = _labels(settings.node_selector)
    nodes = Informer(client, NODES, records.Node)
    nodes.on_change(lambda old, new: taker.node_changed(_kept(old, wanted), _kept(new, wanted)))
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
        entries = [entry for tier in settings.tiers for entry in tier if entry.name in self._plugins]
        for watch in (each for entry in entries for each in self._asked(entry)):
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

    def _asked(self, entry: configuration.PluginEntry) -> Sequence[Watch]:
        """What a plugin always needs, and what it needs with these arguments."""
        plugin = self._plugins[entry.name]
        always: Sequence[Watch] = getattr(plugin, "watches", ())
        further: Sequence[Watch] = getattr(plugin(Arguments(entry.arguments)), "further_watches", ())
        return [*always, *further]


def _observe(old: records.Pod | None, new: records.Pod | None, names: Collection[str], watched: _Watched) -> None:
    if new is not None and new.spec.scheduler_name in names:
        watched(old, new)


def _labels(selectors: tuple[str, ...]) -> frozenset[tuple[str, str]]:
    """The labels of `--node-selector`, each label:value."""
    return frozenset((label.strip(), value.strip()) for label, _, value in (each.partition(":") for each in selectors))


def _kept(node: records.Node | None, wanted: frozenset[tuple[str, str]]) -> records.Node | None:
    """`node` if it has any of the labels that are wanted, or none are."""
    if node is None or not wanted or wanted & node.metadata.labels.items():
        return node
    return None
