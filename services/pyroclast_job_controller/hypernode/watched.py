"""The informers of the HyperNode controllers: HyperNodes, labels of nodes, and the ConfigMap with the sources."""

from __future__ import annotations

import os

from pyroclast.api.records import ConfigMap, HyperNode, NodeMeta
from pyroclast.api.types import CONFIG_MAPS, HYPER_NODES, NODES, Key
from pyroclast.kube.events.correlator import Reference
from pyroclast.kube.watch.informer import Informer
from pyroclast.kube.watch.own_writes import Recent
from pyroclast.kube.workqueue.rejections import subjects_of
from pyroclast_job_controller.shared import Shared


def configuration_key(name: str, namespace: str) -> Key:
    """Return the key of the ConfigMap of this installation.

    An empty `name` selects the default name. `namespace` is used when the environment names no namespace.
    """
    release = os.environ.get("HELM_RELEASE_NAME") or "volcano"
    return Key(os.environ.get("KUBE_POD_NAMESPACE") or namespace, name or f"{release}-controller-configmap")


class HyperNodeCaches:
    """The informers of the HyperNode controllers.

    Args:
        shared: runs the informers and has the client.
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
        """Return a reference to the ConfigMap, for Events about a source or about a HyperNode that does not exist yet."""
        return next((Reference.of(each, CONFIG_MAPS) for each in self.configuration.values()), None)
