"""Creates a PodGroup for every pod that a scheduler of Pyroclast places and that belongs to no Job of Pyroclast."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, Final

import structlog

from pyroclast.api import keys
from pyroclast.api.enums import JobEventReason
from pyroclast.api.records import Pod, PodGroup
from pyroclast.api.types import POD_GROUPS, PODS, Key
from pyroclast.kube.basics.errors import AlreadyExists
from pyroclast.kube.events.correlator import Reference
from pyroclast.kube.http.client import PatchKind
from pyroclast.kube.http.response_records import found, record_of
from pyroclast.kube.workqueue.sharded_queue import ShardedQueue
from pyroclast.lifecycle import plainpods
from pyroclast.lifecycle.plainpods import Workload
from pyroclast.rules import podgroups
from pyroclast.rules.lookups import DEFAULT_QUEUE
from pyroclast.runtime.in_process.creation import ensure_allowed
from pyroclast.runtime.in_process.queues import judged
from pyroclast_job_controller.blocked import Blocked, Cause, pause_after
from pyroclast_job_controller.caches import OWNER, Shared
from pyroclast_job_controller.podgroup.workloads import Owners

MUTATE: Final = "/podgroups/mutate"
VALIDATE: Final = "/podgroups/validate"
PATHS: Final = (MUTATE, VALIDATE)
"""The paths of the webhooks of PodGroups."""

_NAME: Final = "validatepodgroup.volcano.sh"


class GroupAdmission:
    """Creates PodGroups after setting their defaults and checking them.

    `webhooks`: paths of the webhooks that skip this account. `exempt`: namespaces for whose objects no webhook is called.
    """

    def __init__(self, shared: Shared, webhooks: Collection[str], exempt: Collection[str]) -> None:
        self._client, self._caches = shared.client, shared.caches
        self._mutates, self._exempt = MUTATE in webhooks, frozenset(exempt)
        self._queues = shared.caches.queue_views if VALIDATE in webhooks else None
        if self._mutates:
            shared.caches.watch(shared.caches.namespaces)

    async def create(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Create the PodGroup. Raise ApiError also when a skipped webhook would reject it."""
        if (not self._mutates and self._queues is None) or manifest["metadata"]["namespace"] in self._exempt:
            return await self._client.create(POD_GROUPS, manifest)
        return await self._client.create(POD_GROUPS, await self._admitted(manifest), field_manager=self._client.user_agent)

    async def _admitted(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Return `manifest` as the webhooks would change it."""
        namespace = manifest["metadata"]["namespace"]
        group = manifest if "queue" in manifest["spec"] else _with_queue(manifest, DEFAULT_QUEUE)  # the schema's default
        if self._mutates and podgroups.takes_queue_of_namespace(group):
            known = self._caches.namespaces.get(Key("", namespace))
            for operation in podgroups.default(group, known.metadata.annotations if known is not None else {}):
                group = _with_queue(group, operation["value"])
        if self._queues is not None:
            ensure_allowed(_NAME, await judged(partial(podgroups.validate_create, group), self._queues, self._client))
        return group


def _with_queue(group: dict[str, Any], queue: str) -> dict[str, Any]:
    return {**group, "spec": {**group["spec"], "queue": queue}}


log = structlog.get_logger()


class PlainPodController:
    """Reconciles each pod when it appears, and again when its PodGroup was deleted.

    `schedulers`: the names of Pyroclast's schedulers. `inherit`: whether annotations of the pods' owners are used.
    """

    def __init__(
        self,
        shared: Shared,
        queue: ShardedQueue[Key],
        owners: Owners,
        admission: GroupAdmission,
        schedulers: Sequence[str],
        *,
        inherit: bool,
    ) -> None:
        self._client, self._pods, self._groups = shared.client, shared.caches.plain_pods, shared.caches.groups
        self._recorder = shared.recorder
        self._owners, self._admission = owners, admission
        self._queue, self._schedulers, self._inherit = queue, frozenset(schedulers), inherit
        self._pods.on_change(self._changed)
        self._groups.informer.on_change(self._group)

    def enqueue_all(self) -> None:
        """Enqueue every pod of this replica's shards, after the replica became their leader."""
        for pod in self._pods.values():
            self._changed(None, pod)
            if pod.metadata.controller is None and self._has_lost_group(pod):
                self._queue.add(pod.key)

    def renew(self, owner: str) -> None:
        """Enqueue one of the pods that the object with the UID `owner` controls, so that their shared group is reconciled."""
        for pod in self._pods.by_index(OWNER, owner):
            if plainpods.is_in_own_group(pod, self._schedulers) or plainpods.wants_group(pod, self._schedulers):
                self._queue.add(pod.key)
                return

    async def reconcile(self, key: Key) -> None:
        """Create or update the PodGroup of the pod `key`, and annotate the pod with the name of the group."""
        pod = self._pods.get(key)
        if pod is None:
            return
        try:
            await self._provide(pod)
        except Blocked as blocked:
            self._record(pod, blocked)
            self._queue.add_rate_limited(key, after=pause_after(blocked.cause, self._queue.failures(key)))

    async def _provide(self, pod: Pod) -> None:
        name = plainpods.group_name(pod)
        group = self._groups.get(Key(pod.metadata.namespace, name))
        if plainpods.wants_group(pod, self._schedulers):
            if group is not None:
                self._tell_of_queue(pod, await self._update(pod, _own(pod, group)))
            elif (workload := self._workload(pod)) is None or workload.size > 0:  # else nothing would delete a new group later
                await self._create(pod, name)
            await self._annotate(pod, name)
        elif self._has_lost_group(pod):
            workload = self._workload(pod)
            is_needed = workload is not None and not workload.metadata.is_terminating and workload.size > 0
            if pod.metadata.controller is None or is_needed:
                await self._create(pod, name)
        elif group is not None and plainpods.is_in_own_group(pod, self._schedulers) and plainpods.is_group_of(pod, group):
            await self._update(pod, group)  # the size or the annotations of the workload have changed

    async def _create(self, pod: Pod, name: str) -> None:
        gang = await self._owners.gang(pod.metadata)
        try:
            answer = await self._admission.create(await self._wanted(pod, gang))
        except AlreadyExists:
            there = record_of(await self._client.get(POD_GROUPS, Key(pod.metadata.namespace, name)), PodGroup)
            self._tell_of_queue(pod, _own(pod, there))
            log.debug("podgroup.shared", podgroup=f"{pod.metadata.namespace}/{name}", pod=str(pod.key))
            return
        self._groups.put(record_of(answer, PodGroup))
        log.info("podgroup.created", podgroup=f"{pod.metadata.namespace}/{name}", pod=str(pod.key))
        owner = pod.metadata.controller
        if gang is not None and owner is not None:
            about = Reference(owner.api_version, owner.kind, pod.metadata.namespace, owner.name, owner.uid)
            message = plainpods.taken_over(pod, name, gang)
            self._recorder.event(about, "Normal", JobEventReason.SCHEDULING_TAKEN_OVER.value, message)

    async def _update(self, pod: Pod, group: PodGroup) -> PodGroup:
        """Update the group from the present template of the workload. Return the updated group."""
        workload = self._workload(pod)
        if workload is None or group.metadata.is_terminating or not plainpods.speaks_for(pod, workload):
            return group
        patch = plainpods.patch(group, await self._wanted(pod, await self._owners.gang(pod.metadata)))
        if patch:
            group = record_of(await self._client.patch(POD_GROUPS, group.key, patch, PatchKind.MERGE), PodGroup)
            self._groups.put(group)
            log.info("podgroup.updated", podgroup=str(group.key), pod=str(pod.key))
        return group

    async def _annotate(self, pod: Pod, name: str) -> None:
        patch = {"metadata": {"uid": pod.metadata.uid, "annotations": {keys.GROUP_NAME: name}}}
        if await found(self._client.patch(PODS, pod.key, patch, PatchKind.MERGE)) is not None:
            log.info("podgroup.given", podgroup=f"{pod.metadata.namespace}/{name}", pod=str(pod.key))

    def _tell_of_queue(self, pod: Pod, group: PodGroup) -> None:
        """Record an Event on a pod that requests another queue than the group it shares with its siblings."""
        if message := plainpods.queue_not_taken(pod, group):
            self._recorder.event(Reference.of(pod, PODS), "Warning", JobEventReason.QUEUE_NOT_TAKEN.value, message)

    def _record(self, pod: Pod, blocked: Blocked) -> None:
        """Record an Event on the workload, once for all its pods, or on a pod without a workload."""
        owner, about = pod.metadata.controller, Reference.of(pod, PODS)
        if owner is not None:
            about = Reference(owner.api_version, owner.kind, pod.metadata.namespace, owner.name, owner.uid)
        log.info("podgroup.name_taken", pod=str(pod.key), error=str(blocked))
        self._recorder.event(about, "Warning", blocked.reason, str(blocked))

    async def _wanted(self, pod: Pod, gang: int | None) -> dict[str, Any]:
        inherited = await self._owners.annotations(pod.metadata) if self._inherit else {}
        return plainpods.manifest(pod, inherited, gang, self._workload(pod))

    def _workload(self, pod: Pod) -> Workload | None:
        owner = pod.metadata.controller
        return self._owners.workload(pod.metadata.namespace, owner) if owner else None

    def _has_lost_group(self, pod: Pod) -> bool:
        there = Key(pod.metadata.namespace, plainpods.group_name(pod))
        return plainpods.is_in_own_group(pod, self._schedulers) and self._groups.get(there) is None

    def _changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is None and new is not None and plainpods.wants_group(new, self._schedulers):
            self._queue.add(new.key)

    def _group(self, old: PodGroup | None, new: PodGroup | None) -> None:
        """Enqueue the pods of a deleted group, so that the group is created again."""
        owner = old.metadata.controller if old is not None and new is None else None
        if old is None or owner is None or not old.metadata.name.startswith("podgroup-"):
            return
        if (owner.api_version, owner.kind) != (PODS.api_version, PODS.kind):
            self.renew(owner.uid)
            return
        pod = self._pods.get(Key(old.metadata.namespace, owner.name))
        if pod is not None and pod.metadata.uid == owner.uid:
            self._queue.add(pod.key)


def _own(pod: Pod, group: PodGroup) -> PodGroup:
    """Return `group` if it was created for `pod` or a sibling: the answer was lost, or the watch is late.

    Raises Blocked: a PodGroup of another owner has the name.
    """
    if plainpods.is_group_of(pod, group):
        return group
    whose = pod.metadata.controller.kind if pod.metadata.controller else PODS.kind
    message = f"PodGroup {group.key} exists and does not belong to this {whose}"
    raise Blocked(JobEventReason.POD_GROUP_ERROR, message, Cause.LEFTOVER)
