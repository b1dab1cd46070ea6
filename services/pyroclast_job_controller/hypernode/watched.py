"""What the HyperNode controllers watch: HyperNodes, labels of nodes, and the one ConfigMap with the sources."""

from __future__ import annotations

import os

from pyroclast.api.records import ConfigMap, HyperNode, NodeMeta
from pyroclast.api.types import CONFIG_MAPS, HYPER_NODES, NODES, Key
from pyroclast.kube.events.recorder import Reference
from pyroclast.kube.watch.informer import Informer
from pyroclast.kube.watch.own_writes import Recent
from pyroclast.kube.workqueue.rejections import subjects_of
from pyroclast_job_controller.shared import Shared

__all__ = ["HyperNodeCaches", "configuration_key"]


def configuration_key(name: str, namespace: str) -> Key:
    """The ConfigMap of this installation. `name`: empty for the usual; `namespace`: where, if the environment does not say."""
    release = os.environ.get("HELM_RELEASE_NAME") or "volcano"
    return Key(os.environ.get("KUBE_POD_NAMESPACE") or namespace, name or f"{release}-controller-configmap")


class HyperNodeCaches:
    """The informers of the HyperNode controllers.

    Args:
        shared: runs the informers, and has the client.
        configuration: the key of the ConfigMap.
    """

    def __init__(self, shared: Shared, configuration: Key) -> None:
        self.hyper_nodes = Recent(Informer(shared.client, HYPER_NODES, HyperNode), shared.clock)
        self.about = subjects_of(self.hyper_nodes, HYPER_NODES)
        self.nodes: Informer[NodeMeta] = Informer(shared.client, NODES, NodeMeta)
        self.configuration: Informer[ConfigMap] = Informer(
            shared.client,
            CONFIG_MAPS,
            ConfigMap,
            namespace=configuration.namespace,
            field_selector=f"metadata.name={configuration.name}",
        )
        for informer in (self.hyper_nodes.informer, self.nodes, self.configuration):
            shared.caches.watch(informer)

    def about_source(self, _: Key) -> Reference | None:
        """The ConfigMap, for what concerns a source as a whole, or a HyperNode that there is not yet."""
        return next((Reference.of(each, CONFIG_MAPS) for each in self.configuration.values()), None)
