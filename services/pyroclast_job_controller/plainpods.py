"""Gives a PodGroup to every pod that a scheduler of ours places and that belongs to no Job of ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import structlog

from pyroclast.api import keys
from pyroclast.api.records import OwnerReference, Pod
from pyroclast.api.types import POD_GROUPS, PODS, Key, ResourceType
from pyroclast.kube.client import PatchKind
from pyroclast.kube.errors import AlreadyExists, ApiError, NotFound
from pyroclast.kube.queue import WorkQueue
from pyroclast.lifecycle import plainpods
from pyroclast_job_controller.refusal import is_transient
from pyroclast_job_controller.shared import Shared

__all__ = ["PlainPodController"]

log = structlog.get_logger()

_OWNERS: Final = {
    ("apps/v1", "ReplicaSet"): ResourceType("apps", "v1", "replicasets", "ReplicaSet"),
    ("apps/v1", "DaemonSet"): ResourceType("apps", "v1", "daemonsets", "DaemonSet"),
    ("apps/v1", "StatefulSet"): ResourceType("apps", "v1", "statefulsets", "StatefulSet"),
    ("batch/v1", "Job"): ResourceType("batch", "v1", "jobs", "Job"),
}


class PlainPodController:
    """Looks at each pod once, when it appears.

    Args:
        shared: what is watched, and the ways out.
        queue: keys of pods to look at.
        schedulers: the names of our schedulers.
        inherit: whether annotations of the pods' owners count.
    """

    def __init__(self, shared: Shared, queue: WorkQueue[Key], schedulers: Sequence[str], *, inherit: bool) -> None:
        self._client, self._pods, self._shards = shared.client, shared.caches.plain_pods, shared.shards
        self._queue, self._schedulers, self._inherit = queue, frozenset(schedulers), inherit
        self._pods.on_change(self._changed)

    def look_at_all(self) -> None:
        """Look at every pod that is for us: we have just become responsible."""
        for pod in self._pods.values():
            self._changed(None, pod)

    async def reconcile(self, key: Key) -> None:
        """Give the pod of `key` its group, and tell it so."""
        pod = self._pods.get(key)
        if pod is None or not plainpods.wants_group(pod, self._schedulers):
            return
        name = plainpods.group_name(pod)
        try:
            await self._client.create(POD_GROUPS, plainpods.manifest(pod, await self._inherited(pod)))
        except AlreadyExists:
            log.debug("podgroup.shared", podgroup=f"{key.namespace}/{name}", pod=str(key))
        patch = {"metadata": {"uid": pod.metadata.uid, "annotations": {keys.GROUP_NAME: name}}}
        try:
            await self._client.patch(PODS, key, patch, PatchKind.MERGE)
        except NotFound:
            return
        log.info("podgroup.given", podgroup=f"{key.namespace}/{name}", pod=str(key))

    async def _inherited(self, pod: Pod) -> dict[str, str]:
        owners = pod.metadata.owner_references if self._inherit else ()
        return plainpods.merged([await self._annotations(pod.metadata.namespace, owner) for owner in owners])

    async def _annotations(self, namespace: str, owner: OwnerReference) -> dict[str, str]:
        """The annotations of an owner; none when it is of another kind, has gone, or may not be read."""
        kind = _OWNERS.get((owner.api_version, owner.kind))
        if kind is None:
            return {}
        try:
            return (await self._client.get(kind, Key(namespace, owner.name)))["metadata"].get("annotations") or {}
        except ApiError as error:
            if is_transient(error) and not isinstance(error, NotFound):
                raise
            log.warning("owner.unreadable", owner=f"{owner.kind} {namespace}/{owner.name}", reason=error.message)
            return {}

    def _changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is None and new is not None and plainpods.wants_group(new, self._schedulers) and self._shards.owns(new.key):
            self._queue.add(new.key)
