"""Objects that nobody else deletes: PodGroups of Jobs that were deleted without their pods, and pods of lost nodes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

import structlog

from pyroclast.api.records import Node, Pod, PodGroup
from pyroclast.api.types import NODES, POD_GROUPS, PODS, Key
from pyroclast.kube.http.batches import at_once
from pyroclast.kube.http.client import Client
from pyroclast.kube.http.response_records import has_deleted, record_of
from pyroclast.kube.watch.own_writes import Recent
from pyroclast.lifecycle.gang import orphans
from pyroclast.lifecycle.times import parse_time
from pyroclast_job_controller.caches import ORPHAN, Shared
from pyroclast_job_controller.job.memory import JobMemory

_FEW: Final = 8
"""Up to this number, nodes are read one by one; above it, all nodes are listed."""

_AGAIN: Final = 30.0
"""Seconds until terminating pods on ready nodes are checked again, because their node may be lost later."""


class LostNodes:
    """Deletes pods without a grace period when their deletion is overdue and their node does not exist or is not ready.

    Such a pod may still run on the lost node, so this is off unless the administrator enables it. `after`: the seconds after
    which a deletion is overdue.
    """

    def __init__(self, client: Client, recent: Recent[Pod], after: float) -> None:
        self._client, self._recent, self._after = client, recent, after

    async def give_up(self, pods: Iterable[Pod], memory: JobMemory, now: float) -> float | None:
        """Delete the overdue pods of lost nodes. Return when to check again, in seconds since the epoch; None for never."""
        waiting = ends(pods, self._after)
        if not waiting:
            return None
        first = max(min(end for _, end in waiting), memory.nodes_asked + _AGAIN)
        if now < first:
            return first
        late = [pod for pod, end in waiting if end <= now]
        memory.nodes_asked = now
        alive = await self._alive({pod.spec.node_name for pod in late})
        lost = [pod for pod in late if pod.spec.node_name not in alive]
        errors = await at_once(lost, self._delete)
        if errors:
            raise errors[0]
        return now + _AGAIN if len(lost) < len(waiting) else None

    async def _alive(self, names: Collection[str]) -> set[str]:
        nodes: list[Node] = []
        for selector in [f"metadata.name={name}" for name in sorted(names)] if len(names) <= _FEW else [""]:
            items, _ = await self._client.list(NODES, field_selector=selector)
            nodes += [record_of(item, Node) for item in items]
        return {node.metadata.name for node in nodes if is_ready(node)}

    async def _delete(self, pod: Pod) -> None:
        key = Key(pod.metadata.namespace, pod.metadata.name)
        if await has_deleted(self._client.delete(PODS, key, uid=pod.metadata.uid, grace_seconds=0)):
            log.warning("pod.given_up", pod=str(key), node=pod.spec.node_name)
        self._recent.gone(key, pod.metadata.uid)


log = structlog.get_logger()


class Orphans:
    """Deletes orphaned PodGroups, which have no owner and would keep their queue in state Closing for ever."""

    def __init__(self, shared: Shared) -> None:
        self._client, self._caches = shared.client, shared.caches

    async def clear(self, key: Key) -> None:
        """Delete the PodGroups of earlier Jobs with the name in `key` whose pods have all ended."""
        for group in self._of(key):
            job = self._caches.jobs.get(key)
            if job is not None and orphans.job_uid(group) == job.metadata.uid:
                continue
            members = self._caches.pods.informer.by_index(ORPHAN, str(group.key))
            if group.metadata.is_terminating or orphans.are_alive(members):
                continue
            if await has_deleted(self._client.delete(POD_GROUPS, group.key, uid=group.metadata.uid)):
                log.info("podgroup.orphan_deleted", podgroup=str(group.key))

    def any_of(self, key: Key) -> bool:
        """Whether an orphaned PodGroup of an earlier Job with the name in `key` exists."""
        return bool(self._of(key))

    def _of(self, key: Key) -> list[PodGroup]:
        return self._caches.groups.informer.by_index(ORPHAN, str(key))


def ends(pods: Iterable[Pod], patience: float) -> list[tuple[Pod, float]]:
    """Return the deleted pods of `pods`, each with the time (seconds since the epoch) by which it should be gone.

    That time is `patience` seconds after the end of the grace period. Pods with finalizers are left out, because another
    component keeps them. Pods without a node are left out too, because nothing keeps them.
    """
    return [
        (pod, parse_time(pod.metadata.deletion_timestamp) + patience)
        for pod in pods
        if pod.metadata.deletion_timestamp and pod.spec.node_name and not pod.metadata.finalizers
    ]


def is_ready(node: Node) -> bool:
    """Whether the node reports Ready; a node that no longer reports has the status Unknown."""
    return any(condition.type == "Ready" and condition.status == "True" for condition in node.status.conditions)
