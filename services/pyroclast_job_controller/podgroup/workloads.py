"""Kubernetes workloads and their PodGroups: the annotations of workloads, and no PodGroup for a workload without pods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import structlog

from pyroclast.api import records
from pyroclast.api.records import Meta, OwnerReference, PodGroup
from pyroclast.api.types import BATCH_JOBS, DAEMON_SETS, POD_GROUPS, REPLICA_SETS, STATEFUL_SETS, Key, ResourceType
from pyroclast.kube.basics.errors import ApiError, NotFound, is_transient
from pyroclast.kube.events.correlator import Reference
from pyroclast.kube.http.client import Client
from pyroclast.kube.http.response_records import has_deleted, record_of
from pyroclast.kube.watch.informer import Informer
from pyroclast.kube.workqueue.sharded_queue import ShardedQueue
from pyroclast.lifecycle import plainpods
from pyroclast.lifecycle.plainpods import Workload
from pyroclast_job_controller.caches import Shared

log = structlog.get_logger()

_READ: Final = {(kind.api_version, kind.kind): kind for kind in (REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, BATCH_JOBS)}
"""The owners whose annotations are used."""
_WATCHED: Final = {REPLICA_SETS: records.ReplicaSet, STATEFUL_SETS: records.StatefulSet, BATCH_JOBS: records.BatchJob}


class Owners:
    """The watched workloads and their annotations. A cluster may not serve one of their kinds."""

    def __init__(self, shared: Shared) -> None:
        self._client: Client = shared.client
        self.informers: dict[ResourceType, Informer[Any]] = {}
        for kind, record in _WATCHED.items():
            self.informers[kind] = shared.caches.batch_jobs if kind is BATCH_JOBS else Informer(shared.client, kind, record)
            shared.caches.watch(self.informers[kind], optional=True)

    def workload(self, namespace: str, owner: OwnerReference) -> Workload | None:
        """Return the workload that `owner` refers to. None when it is not cached."""
        kind = _READ.get((owner.api_version, owner.kind))
        informer = self.informers.get(kind) if kind else None
        found: Workload | None = informer.get(Key(namespace, owner.name)) if informer else None
        return found if found is not None and found.metadata.uid == owner.uid else None

    def about(self, key: Key) -> Reference | None:
        """Return a reference to the workload with that key, of any kind. None when it is not cached."""
        found = ((kind, informer.get(key)) for kind, informer in self.informers.items())
        return next((Reference.of(workload, kind) for kind, workload in found if workload is not None), None)

    async def annotations(self, meta: Meta) -> dict[str, str]:
        """Return the annotations of all owners of an object. For a key of several owners, the first owner's value is used."""
        return plainpods.merged([await self._annotations(meta.namespace, owner) for owner in meta.owner_references])

    async def gang(self, meta: Meta) -> int | None:
        """Return how many pods must start together by the `scheduling` of the object's Job. None when the Job does not say so."""
        owner = meta.controller
        if owner is None or (owner.api_version, owner.kind) != (BATCH_JOBS.api_version, BATCH_JOBS.kind):
            return None
        known = self.workload(meta.namespace, owner)
        if known is None and (body := await self._live(BATCH_JOBS, meta.namespace, owner)) is not None:
            known = record_of(body, records.BatchJob)
        return known.gang if isinstance(known, records.BatchJob) and known.metadata.uid == owner.uid else None

    async def _annotations(self, namespace: str, owner: OwnerReference) -> dict[str, str]:
        """Return the annotations of an owner. Empty when its kind is not used, it was deleted, or it may not be read."""
        known = self.workload(namespace, owner)
        if known is not None:
            return dict(known.metadata.annotations)
        kind = _READ.get((owner.api_version, owner.kind))
        body = await self._live(kind, namespace, owner) if kind is not None else None
        return body["metadata"].get("annotations") or {} if body is not None else {}

    async def _live(self, kind: ResourceType, namespace: str, owner: OwnerReference) -> dict[str, Any] | None:
        try:
            return await self._client.get(kind, Key(namespace, owner.name))
        except ApiError as error:
            if is_transient(error) and not isinstance(error, NotFound):
                raise
            log.warning("owner.unreadable", owner=f"{owner.kind} {namespace}/{owner.name}", reason=error.message)
            return None


def _group_facts(workload: Workload) -> tuple[object, ...]:
    return workload.size, workload.at_once, workload.metadata.annotations


class WorkloadController:
    """Deletes the PodGroup of a workload that is scaled to zero, and has it created or updated when the workload has pods.

    Workloads of several kinds with the same name are reconciled together. `renew`: called with the UID of a workload to
    reconcile the PodGroup of its pods.
    """

    def __init__(self, shared: Shared, queue: ShardedQueue[Key], owners: Owners, renew: Callable[[str], None]) -> None:
        self._client, self._groups = shared.client, shared.caches.groups
        self._queue, self._owners, self._renew = queue, owners, renew
        for informer in owners.informers.values():
            informer.on_change(self._changed)
        self._groups.informer.on_change(self._group)

    def enqueue_all(self) -> None:
        """Enqueue every workload of this replica's shards, after the replica became their leader."""
        for informer in self._owners.informers.values():
            for workload in informer.values():
                self._changed(None, workload)

    async def reconcile(self, key: Key) -> None:
        """Create or delete the PodGroups of the workloads with that key according to their size."""
        for informer in self._owners.informers.values():
            workload = informer.get(key)
            if workload is None:
                continue
            group = self._groups.get(Key(key.namespace, f"podgroup-{workload.metadata.uid}"))
            if workload.metadata.is_terminating:
                continue
            if workload.size > 0:
                self._renew(workload.metadata.uid)
                continue
            if group is None or group.metadata.is_terminating or not plainpods.is_controlled(group, workload.metadata.uid):
                continue
            if await has_deleted(self._client.delete(POD_GROUPS, group.key, uid=group.metadata.uid)):
                log.info("podgroup.deleted", podgroup=str(group.key), reason="scaled to zero")
            self._groups.gone(group.key, group.metadata.uid)

    def _changed(self, old: Workload | None, new: Workload | None) -> None:
        if new is not None and (old is None or _group_facts(old) != _group_facts(new)):
            self._queue.add(new.key)

    def _group(self, old: PodGroup | None, new: PodGroup | None) -> None:
        """Enqueue the workload of a new group, because the workload may have been scaled to zero meanwhile."""
        owner = new.metadata.controller if old is None and new is not None else None
        if new is not None and owner is not None and (owner.api_version, owner.kind) in _READ:
            self._queue.add(Key(new.metadata.namespace, owner.name))
