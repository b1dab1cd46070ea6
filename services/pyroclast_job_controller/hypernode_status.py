"""Writes the number of nodes to the status of every HyperNode."""

from __future__ import annotations

import os
from typing import Final

import structlog

from pyroclast.api.records import HyperNode, NodeMeta
from pyroclast.api.types import CONFIG_MAPS, HYPER_NODES, NODES, Key
from pyroclast.kube.events.correlator import Reference
from pyroclast.kube.http.client import PatchKind
from pyroclast.kube.http.response_records import found, record_of
from pyroclast.kube.watch.informer import Informer
from pyroclast.kube.watch.own_writes import Recent
from pyroclast.kube.workqueue.rejections import subjects_of
from pyroclast.kube.workqueue.sharded_queue import ShardedQueue
from pyroclast.lifecycle.hypernodes.discovered import depends_on_nodes, node_count
from pyroclast_job_controller.caches import Shared, one_config_map


def configuration_key(name: str, namespace: str) -> Key:
    """Return the key of the ConfigMap of this installation.

    An empty `name` selects the default name. `namespace` is used when the environment names no namespace.
    """
    release = os.environ.get("HELM_RELEASE_NAME") or "volcano"
    return Key(os.environ.get("KUBE_POD_NAMESPACE") or namespace, name or f"{release}-controller-configmap")


class HyperNodeCaches:
    """The informers of the HyperNode controllers. `configuration`: the key of the ConfigMap."""

    def __init__(self, shared: Shared, configuration: Key) -> None:
        self.hyper_nodes = Recent(Informer(shared.client, HYPER_NODES, HyperNode), shared.clock)
        self.about = subjects_of(self.hyper_nodes.get, HYPER_NODES)
        self.nodes: Informer[NodeMeta] = Informer(shared.client, NODES, NodeMeta)
        self.configuration = one_config_map(shared.client, configuration)
        for informer in (self.hyper_nodes.informer, self.nodes, self.configuration):
            shared.caches.watch(informer)

    def about_source(self, _: Key) -> Reference | None:
        """Return a reference to the ConfigMap, for Events about a source or about a HyperNode that does not exist yet."""
        return next((Reference.of(each, CONFIG_MAPS) for each in self.configuration.values()), None)


log = structlog.get_logger()

_GATHERING: Final = 1.0
"""Seconds in which changes of nodes are collected before the HyperNodes are counted again."""


class HyperNodeStatusController:
    """Counts the nodes of a HyperNode when it changes, and when nodes change that its patterns or labels may select."""

    def __init__(self, shared: Shared, queue: ShardedQueue[Key], watched: HyperNodeCaches) -> None:
        self._client, self._clock = shared.client, shared.clock
        self._gathered_until = -_GATHERING  # the end of the present collection, at which all HyperNodes are counted again
        self._queue, self._hyper_nodes, self._nodes = queue, watched.hyper_nodes, watched.nodes
        self._hyper_nodes.informer.on_change(self._changed)
        self._nodes.on_change(self._node)

    def enqueue_all(self) -> None:
        """Enqueue every HyperNode of this replica's shards, after the replica became their leader."""
        for hyper_node in self._hyper_nodes.informer.values():
            self._changed(None, hyper_node)

    async def reconcile(self, key: Key) -> None:
        """Write the number of nodes of HyperNode `key`, if it has changed."""
        hyper_node = self._hyper_nodes.get(key)
        if hyper_node is None:
            return
        count = node_count(hyper_node, {node.metadata.name: node.metadata.labels for node in self._nodes.values()})
        if count == hyper_node.status.node_count:
            return
        patch = {"metadata": {"uid": hyper_node.metadata.uid}, "status": {"nodeCount": count}}
        answer = await found(self._client.patch(HYPER_NODES, key, patch, PatchKind.MERGE, subresource="status"))
        if answer is None:
            return
        self._hyper_nodes.put(record_of(answer, HyperNode))
        log.info("hypernode.counted", hypernode=key.name, nodes=count)

    def _changed(self, old: HyperNode | None, new: HyperNode | None) -> None:
        if new is not None and (old is None or old.spec != new.spec or old.status != new.status):
            self._queue.add(new.key)
            if depends_on_nodes(new):
                self._queue.add_after(new.key, _GATHERING)  # for nodes that are created before the next count

    def _node(self, old: NodeMeta | None, new: NodeMeta | None) -> None:
        if old is not None and new is not None and old.metadata.labels == new.metadata.labels:
            return
        now = self._clock()
        if now < self._gathered_until:
            return
        self._gathered_until = now + _GATHERING
        for hyper_node in self._hyper_nodes.informer.values():
            if depends_on_nodes(hyper_node):
                self._queue.add_after(hyper_node.key, _GATHERING)
