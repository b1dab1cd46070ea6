"""Writes a NodeShard for every configured scheduler."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import structlog

from pyroclast.api.records import ConfigMap, Node, NodeShard, Pod
from pyroclast.api.types import CONFIG_MAPS, NODE_SHARDS, NODES, PODS, Key
from pyroclast.kube.events.correlator import Reference
from pyroclast.kube.http.client import PatchKind
from pyroclast.kube.http.response_records import has_deleted, record_of
from pyroclast.kube.watch.informer import Informer
from pyroclast.kube.watch.own_writes import Recent
from pyroclast.kube.workqueue.rejections import Refusals, subjects_of
from pyroclast.kube.workqueue.sharded_queue import ShardedQueue
from pyroclast.lifecycle.shards import NodeLoad, Sharding, ShardingError, choose, is_due, load_of, read, status
from pyroclast.lifecycle.times import format_time
from pyroclast_job_controller.caches import NODE, Shared, node_of, one_config_map

log = structlog.get_logger()

_ALL: Final = Key("", "all")
_GATHERING: Final = 0.2
"""Seconds in which changes of nodes are collected."""
_STRIKING: Final = 0.5
"""The change of a node's load after which all nodes are distributed again before the period is over."""


class ShardingController:
    """Reconciles all NodeShards with a single key, because the nodes are distributed together.

    `flags`: the configuration while the ConfigMap with the key `configuration` has none.
    """

    def __init__(self, shared: Shared, queue: ShardedQueue[Key], flags: Sharding, configuration: Key) -> None:
        self._client, self._recorder, self._now = shared.client, shared.recorder, shared.now
        self._queue, self._flags, self._sharding = queue, flags, flags
        self._loads: dict[str, NodeLoad] = {}
        self._shards = Recent(Informer(shared.client, NODE_SHARDS, NodeShard), shared.clock)
        about = subjects_of(self._shards.get, NODE_SHARDS)
        self._refusals: Refusals[Key] = Refusals(shared.recorder, lambda key: about(key) or self.about(key))
        self._nodes: Informer[Node] = Informer(shared.client, NODES, Node)
        self._pods: Informer[Pod] = Informer(shared.client, PODS, Pod, indexers={NODE: node_of})
        self._configurations = one_config_map(shared.client, configuration)
        for informer in (self._shards.informer, self._nodes, self._pods, self._configurations):
            shared.caches.watch(informer)
        shared.shards.on_give(self._refusals.clear)
        self._configurations.on_change(self._configured)
        self._shards.informer.on_change(self._shard)
        self._nodes.on_change(self._node)
        self._pods.on_change(self._pod)

    def about(self, _: Key) -> Reference | None:
        """Return a reference to the ConfigMap, for Events about all shards or about a shard that does not exist yet."""
        return next((Reference.of(each, CONFIG_MAPS) for each in self._configurations.values()), None)

    def enqueue_all(self) -> None:
        """Distribute the nodes among the schedulers, after this replica became the leader."""
        self._queue.add(_ALL)

    async def reconcile(self, key: Key) -> None:
        """Distribute the nodes, and write the NodeShards that differ enough. A refused write does not stop the others."""
        self._queue.add_after(key, self._sharding.period)
        pods = self._pods
        self._loads = {
            node.metadata.name: load_of(node, pods.by_index(NODE, node.metadata.name)) for node in self._nodes.values()
        }
        chosen = choose(self._sharding.shares, self._loads.values())
        surplus = [shard for shard in self._shards.informer.values() if shard.metadata.name not in chosen]
        writes = [(Key("", name), partial(self._apply, name, desired)) for name, desired in chosen.items()]
        writes += [(shard.key, partial(self._delete, shard)) for shard in surplus]
        if pause := await self._refusals.attempt_all(writes):
            self._queue.add_after(_ALL, pause)

    async def _apply(self, name: str, desired: tuple[str, ...]) -> None:
        shard = self._shards.get(Key("", name))
        if shard is None:
            meta = {"name": name}
            body = {"apiVersion": NODE_SHARDS.api_version, "kind": NODE_SHARDS.kind, "metadata": meta}
            shard = self._keep(await self._client.create(NODE_SHARDS, {**body, "spec": {"nodesDesired": list(desired)}}))
            log.info("nodeshard.created", scheduler=name, nodes=len(desired))
        elif is_due(shard, desired):
            shard = await self._patch(shard, {"spec": {"nodesDesired": list(desired)}})
            log.info("nodeshard.changed", scheduler=name, nodes=len(desired))
        reported = status(shard, shard.spec.nodes_desired)
        if reported:
            await self._patch(shard, {"status": {**reported, "lastUpdateTime": format_time(self._now())}}, subresource="status")

    async def _patch(self, shard: NodeShard, patch: dict[str, Any], *, subresource: str = "") -> NodeShard:
        answer = await self._client.patch(NODE_SHARDS, shard.key, patch, PatchKind.MERGE, subresource=subresource)
        return self._keep(answer)

    async def _delete(self, shard: NodeShard) -> None:
        if await has_deleted(self._client.delete(NODE_SHARDS, shard.key, uid=shard.metadata.uid)):
            log.info("nodeshard.deleted", scheduler=shard.metadata.name)
        self._shards.gone(shard.key, shard.metadata.uid)

    def _keep(self, answer: dict[str, Any]) -> NodeShard:
        shard = record_of(answer, NodeShard)
        self._shards.put(shard)
        return shard

    def _configured(self, _: ConfigMap | None, new: ConfigMap | None) -> None:
        """Apply a changed configuration. When it is invalid or deleted, the previous configuration stays in effect."""
        if new is None:
            return
        try:
            self._sharding = read(new.data, self._flags)
        except ShardingError as error:
            log.warning("sharding.misconfigured", error=str(error))
            text = f"{error}; the last configuration stays in force"
            self._recorder.event(Reference.of(new, CONFIG_MAPS), "Warning", "InvalidConfiguration", text)
            return
        self._queue.add(_ALL)

    def _shard(self, old: NodeShard | None, new: NodeShard | None) -> None:
        """Enqueue the distribution after a NodeShard was deleted or changed, or its scheduler reported other nodes in use."""
        if old is None or new is None or old.spec != new.spec or old.status.nodes_in_use != new.status.nodes_in_use:
            self._queue.add_after(_ALL, _GATHERING)

    def _node(self, old: Node | None, new: Node | None) -> None:
        if self._sharding.on_events and (old is None or new is None):
            self._queue.add_after(_ALL, _GATHERING)

    def _pod(self, old: Pod | None, new: Pod | None) -> None:
        """Enqueue the distribution when the load of a node has changed much."""
        if not self._sharding.on_events:
            return
        for name in {pod.spec.node_name for pod in (old, new) if pod is not None and pod.spec.node_name}:
            node, before = self._nodes.get(Key("", name)), self._loads.get(name)
            if node is not None and before is not None:
                now = load_of(node, self._pods.by_index(NODE, name)).rate
                if abs(now - before.rate) > _STRIKING:
                    self._queue.add_after(_ALL, _GATHERING)
