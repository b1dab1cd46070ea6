"""Operation beside other schedulers: on the nodes of a NodeShard, or on the pods and nodes that a hash ring assigns."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import structlog

from pyroclast.api import records
from pyroclast.api.records.meta import ObjectRecord
from pyroclast.api.types import NODE_SHARDS, Key, ResourceType
from pyroclast.kube.basics.deadline import Deadline
from pyroclast.kube.basics.errors import Conflict, KubeError, NotFound, is_transient
from pyroclast.kube.events.correlator import Reference
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.kube.watch.informer import Informer
from pyroclast.kube.workqueue.rejections import Refusals
from pyroclast.lifecycle.times import format_time
from pyroclast_scheduler.cache.assumptions import AssumptionKind
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.model.dimensions import Amounts
from pyroclast_scheduler.model.sharding import Ring, ShardTable, ring_key
from pyroclast_scheduler.model.tasks import group_of
from pyroclast_scheduler.session.ports import Shard

log = structlog.get_logger()

R = TypeVar("R", bound=ObjectRecord)
_SECONDS: Final = 10.0


class ShardKeeper:
    """Decides which nodes a session may use, and writes them to the status of this scheduler's NodeShard; `run` must be running.

    The scheduler uses a node only after its status lists the node. The status lists the node until no session and no bind of this
    scheduler uses it any more. Two schedulers with this rule therefore never use the same node.
    """

    def __init__(
        self,
        client: Client,
        cache: Cache,
        recorder: EventRecorder,
        name: str,
        *,
        is_hard: bool,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._refusals: Refusals[Key] = Refusals(recorder, self._about)
        self._cache = cache
        self._table = ShardTable(name)
        self._is_hard = is_hard
        self._now = now
        self._wish: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue(1)
        self._sent: tuple[str, frozenset[str]] = ("", frozenset())
        self._is_missed = False

    def informer(self) -> Informer[records.NodeShard]:
        """Return an informer of all NodeShards, which must be run."""
        shards = Informer(self._client, NODE_SHARDS, records.NodeShard)
        shards.on_change(self.changed)
        return shards

    def changed(self, old: records.NodeShard | None, new: records.NodeShard | None) -> None:
        """Handle that a NodeShard was created, changed or deleted. The next session uses the change."""
        before = self._table.nodes, self._table.claimed()
        self._table.changed(old, new)
        if (self._table.nodes, self._table.claimed()) != before:
            self._cache.stale()

    def shard(self) -> Shard:
        """Return the nodes for the session that starts now. No session is running, so nodes of the last one can be released."""
        own = self._table.own
        if own is None and not self._is_missed:
            log.error("shard.missing", name=self._table.name, nodes=len(self._table.nodes))
        self._is_missed = own is None
        status = self._table.status(self._cache.assumptions.nodes(AssumptionKind.BOUND))
        if own is not None and status and self._wish.empty():
            version = own.metadata.resource_version
            self._sent = (version, frozenset(status["nodesInUse"]))
            self._wish.put_nowait((version, {**status, "lastUpdateTime": format_time(self._now())}))
        return self.seen()

    def seen(self) -> Shard:
        """Return the nodes that a session may use. No status is written."""
        used, own = self._table.claimed(), self._table.own
        if own is not None and own.metadata.resource_version == self._sent[0]:  # nodes that are being released must not be used
            used &= self._sent[1]
        return Shard(used, self._is_hard)

    async def run(self) -> None:
        """Write the status until cancelled. An outdated write is refused, and the next session plans a new one."""
        while True:
            version, status = await self._wish.get()
            body = {"metadata": {"resourceVersion": version}, "status": status}
            key = Key("", self._table.name)
            try:
                await self._client.patch(
                    NODE_SHARDS, key, body, PatchKind.MERGE, subresource="status", deadline=Deadline.after(_SECONDS)
                )
            except (Conflict, NotFound):
                log.debug("shard.outdated", name=key.name)
            except KubeError as error:
                log.warning("shard.not_written", name=key.name, error=str(error))
                if not is_transient(error):
                    await asyncio.sleep(self._refusals.take(key, error))
            else:
                self._refusals.forget(key)
                log.info("shard.used", name=key.name, nodes=len(status["nodesInUse"]))

    def _about(self, _: Key) -> Reference | None:
        own = self._table.own
        return Reference.of(own, NODE_SHARDS) if own is not None else None


class RingMember:
    """One member of a hash ring of schedulers: the pods, PodGroups and nodes that this scheduler owns.

    The amounts that the other members have allocated also count in the queues.
    """

    def __init__(self, ring: Ring, cache: Cache, names: tuple[str, ...], *, default_queue: str) -> None:
        self._ring = ring
        self._cache = cache
        self._names = frozenset(names)
        self._elsewhere = Cache(names, default_queue=default_queue)
        cache.natives.trees.is_divided = True

    def node_changed(self, old: records.Node | None, new: records.Node | None) -> None:
        """Handle that a node was created, changed or deleted."""
        self._cache.node_changed(*(node if node and self._ring.is_mine(node.metadata.name) else None for node in (old, new)))

    def queue_changed(self, old: records.Queue | None, new: records.Queue | None) -> None:
        """Handle that a queue was created, changed or deleted. Every member uses all queues."""
        self._cache.queue_changed(old, new)
        self._elsewhere.queue_changed(old, new)

    def group_changed(self, old: records.PodGroup | None, new: records.PodGroup | None) -> None:
        """Handle that a PodGroup was created, changed or deleted."""
        self._divide(old, new, self._is_mine, self._cache.group_changed)
        self._divide(old, new, lambda group: not self._is_mine(group), self._elsewhere.group_changed)

    def native_group_changed(
        self, old: records.NativePodGroup | None, new: records.NativePodGroup | None, kind: ResourceType
    ) -> None:
        """Handle that a PodGroup of the Kubernetes API was created, changed or deleted. `kind`: its resource type."""
        mine, others = self._cache.natives, self._elsewhere.natives
        self._divide(old, new, self._is_mine, lambda old, new: mine.group_changed(old, new, kind))
        self._divide(old, new, lambda group: not self._is_mine(group), lambda old, new: others.group_changed(old, new, kind))

    def pod_changed(self, old: records.Pod | None, new: records.Pod | None) -> None:
        """Handle that a pod was created, changed or deleted. Pods of other members use room on the nodes of this one."""
        self._divide(old, new, self._is_seen, self._cache.pod_changed)
        self._divide(old, new, lambda pod: not self._is_mine(pod), self._elsewhere.pod_changed)
        if old is not None and not self._is_mine(old) and _has_place(old) and not (new is not None and _has_place(new)):
            self._cache.queue_freed_elsewhere(self._queue_of(old))

    def _queue_of(self, pod: records.Pod) -> str:
        """Return the queue of a pod of another member; empty if its PodGroup was deleted."""
        group = self._elsewhere.groups.current(group_of(pod))
        return group.spec.queue if group is not None else ""

    def elsewhere(self) -> Mapping[str, Amounts]:
        """Return the allocated amounts of other members by queue."""
        return self._elsewhere.placed()

    def writes(self, queue: str) -> bool:
        """Whether this member writes the status of a queue. One member writes the sum of all members."""
        return self._ring.is_mine(queue)

    def _is_seen(self, pod: records.Pod) -> bool:
        node = pod.spec.node_name
        is_known = pod.spec.scheduler_name in self._names or bool(node)
        return (is_known and self._is_mine(pod)) or (bool(node) and self._ring.is_mine(node))

    def _is_mine(self, record: ObjectRecord) -> bool:
        named = record.spec.scheduling_group if isinstance(record, records.Pod) else None
        if named is not None and not record.metadata.owner_references:
            return self._ring.is_mine(named.pod_group_name)
        return self._ring.is_mine(ring_key(record.metadata))

    def _divide(
        self, old: R | None, new: R | None, takes: Callable[[R], bool], handle: Callable[[R | None, R | None], None]
    ) -> None:
        """Pass on a change as seen by a cache that contains only some of the objects."""
        before, after = (each if each is not None and takes(each) else None for each in (old, new))
        if before is not None or after is not None:
            handle(before, after)


def _has_place(pod: records.Pod) -> bool:
    return bool(pod.spec.node_name) and pod.status.phase not in ("Succeeded", "Failed")
