"""Gives up on pods that do not go because their node is lost: nobody is left there to say that they have ended."""

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

__all__ = ["LostNodes"]

log = structlog.get_logger()

_FEW: Final = 8
"""Nodes that are asked for one by one; more are looked for in a list of all."""

_AGAIN: Final = 30.0
"""Seconds until pods of nodes that are alive are looked at again: their node may still be lost."""


class LostNodes:
    """Deletes pods for good that were to have gone `after` seconds ago, and whose node is not there or not ready.

    Such a pod may still run where nobody sees it, so this is off unless the administrator asks for it.

    Args:
        client: the API server.
        recent: the pods, with our own writes.
        after: seconds.
    """

    def __init__(self, client: Client, recent: Recent[Pod], after: float) -> None:
        self._client, self._recent, self._after = client, recent, after

    async def give_up(self, pods: Iterable[Pod], memory: JobMemory, now: float) -> float | None:
        """Delete those of `pods` that are lost; when to look again, in seconds since the epoch, None: nothing is waited for.

        Raises:
            KubeError: nobody knows how far it went.
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
        """Those of `names` whose node is there and ready."""
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
