"""The forced deletion of terminating pods on lost nodes, where no kubelet can confirm that the pods have ended."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

import structlog

from pyroclast.api.records import Node, Pod
from pyroclast.api.types import NODES, PODS, Key
from pyroclast.kube.basics.errors import Conflict, NotFound
from pyroclast.kube.http.batches import at_once
from pyroclast.kube.http.client import Client
from pyroclast.kube.http.response_records import record_of
from pyroclast.kube.watch.own_writes import Recent
from pyroclast.lifecycle.gang import overdue
from pyroclast_job_controller.job.memory import JobMemory

log = structlog.get_logger()

_FEW: Final = 8
"""Up to this number, nodes are read one by one; above it, all nodes are listed."""

_AGAIN: Final = 30.0
"""Seconds until terminating pods on ready nodes are checked again, because their node may be lost later."""


class LostNodes:
    """Deletes pods without a grace period when their deletion is overdue and their node does not exist or is not ready.

    Such a pod may still run on the lost node, so this is off unless the administrator enables it.

    Args:
        client: the client of the API server.
        recent: the cache of pods, which includes the writes of this controller.
        after: the seconds after which a deletion is overdue.
    """

    def __init__(self, client: Client, recent: Recent[Pod], after: float) -> None:
        self._client, self._recent, self._after = client, recent, after

    async def give_up(self, pods: Iterable[Pod], memory: JobMemory, now: float) -> float | None:
        """Delete the overdue pods of lost nodes.

        Returns:
            When to check again, in seconds since the epoch; None when no pod is being deleted.

        Raises:
            KubeError: a node or pod could not be read or deleted; some pods may be deleted already.
        """
        waiting = overdue.ends(pods, self._after)
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
        """Return the names of the nodes that exist and are ready."""
        nodes: list[Node] = []
        for selector in [f"metadata.name={name}" for name in sorted(names)] if len(names) <= _FEW else [""]:
            items, _ = await self._client.list(NODES, field_selector=selector)
            nodes += [record_of(item, Node) for item in items]
        return {node.metadata.name for node in nodes if overdue.is_ready(node)}

    async def _delete(self, pod: Pod) -> None:
        key = Key(pod.metadata.namespace, pod.metadata.name)
        try:
            await self._client.delete(PODS, key, uid=pod.metadata.uid, grace_seconds=0)
        except (NotFound, Conflict):
            log.debug("pod.gone", pod=str(key))
        else:
            log.warning("pod.given_up", pod=str(key), node=pod.spec.node_name)
        self._recent.gone(key, pod.metadata.uid)
