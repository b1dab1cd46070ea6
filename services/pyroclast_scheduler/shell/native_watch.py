"""Watches PodGroups of the Kubernetes API if the API server has them. The API may be enabled while the scheduler runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

import structlog

from pyroclast.api import records
from pyroclast.api.records.meta import ObjectRecord
from pyroclast.api.types import BATCH_JOBS, NAMESPACES, NATIVE_POD_GROUPS, ResourceType
from pyroclast.kube.basics.errors import KubeError
from pyroclast.kube.http.client import Client
from pyroclast.kube.http.native_groups import LOOK_SECONDS, VERSIONS, composite_kind_served, kind_served
from pyroclast.kube.watch.informer import Informer
from pyroclast_scheduler.cache.cache import Cache

log = structlog.get_logger()

_FIRST_LIST_SECONDS: Final = 10.0  # how long decisions wait for the first list, since running gangs are unknown without it


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
        groups.on_change(partial(self._changed, kind))
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
        composites.on_change(partial(self._composite_changed, kind))
        self._followed[kind] = composites
        self._cache.natives.composites_served()
        self._watch(composites)

    def _composite_changed(
        self, kind: ResourceType, old: records.CompositePodGroup | None, new: records.CompositePodGroup | None
    ) -> None:
        self._cache.natives.composite_changed(old, new, kind)

    def _changed(self, kind: ResourceType, old: records.NativePodGroup | None, new: records.NativePodGroup | None) -> None:
        self._take(old, new, kind)
