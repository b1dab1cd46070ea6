"""What the service keeps of the cluster: queues, flows and namespaces, so that no request waits for the API server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from pyroclast.api.keys import HIERARCHY, HIERARCHY_WEIGHTS
from pyroclast.api.records import JobFlow, Namespace, Queue
from pyroclast.api.types import JOB_FLOWS, NAMESPACES, QUEUES, Key
from pyroclast.kube.client import Client
from pyroclast.kube.informer import Informer
from pyroclast.rules.amounts import amount
from pyroclast.rules.lookups import FlowView, QueueView

__all__ = ["FlowCache", "NamespaceCache", "QueueCache", "queue_view"]


def queue_view(queue: Queue) -> QueueView:
    """What the rules see of a queue that an informer holds."""
    annotations = queue.metadata.annotations
    pods = amount((queue.status.allocated or {}).get("pods"))
    return QueueView(
        name=queue.metadata.name,
        parent=queue.spec.parent,
        state=queue.status.state or "",
        hierarchy=annotations.get(HIERARCHY, ""),
        hierarchy_weights=annotations.get(HIERARCHY_WEIGHTS, ""),
        capability=queue.spec.capability or {},
        deserved=queue.spec.deserved or {},
        guarantee=queue.spec.guarantee.resource or {},
        allocated_pods=pods.value if pods is not None else 0,
    )


class QueueCache:
    """The queues, by name and by parent. May be read in another thread: what readers iterate over is replaced, never changed."""

    def __init__(self, client: Client) -> None:
        self.informer = Informer(client, QUEUES, Queue)
        self._views: dict[str, QueueView] = {}
        self._children: dict[str, dict[str, QueueView]] = {}
        self.informer.on_change(self._changed)

    def get(self, name: str) -> QueueView | None:
        """The queue of that name."""
        return self._views.get(name)

    def children(self, name: str) -> Sequence[QueueView]:
        """The queues below that one, ordered by name."""
        return sorted(self._children.get(name, {}).values(), key=attrgetter("name"))

    def all(self) -> Sequence[QueueView]:
        """Every queue."""
        return list(self._views.values())

    def put(self, view: QueueView) -> None:
        """Take a queue that was read from the API server before the watch brought it."""
        self.remove(view.name)
        self._views[view.name] = view
        self._children[view.parent] = {**self._children.get(view.parent, {}), view.name: view}

    def remove(self, name: str) -> None:
        """Forget a queue."""
        old = self._views.pop(name, None)
        if old is not None:
            siblings = self._children.get(old.parent, {})
            self._children[old.parent] = {sibling: view for sibling, view in siblings.items() if sibling != name}

    def _changed(self, old: Queue | None, new: Queue | None) -> None:
        if new is not None:
            self.put(queue_view(new))
        elif old is not None:
            self.remove(old.metadata.name)


class FlowCache:
    """The JobFlows, by the templates that they name."""

    def __init__(self, client: Client) -> None:
        self.informer = Informer(
            client,
            JOB_FLOWS,
            JobFlow,
            indexers={"template": lambda flow: (f"{flow.metadata.namespace}/{entry.name}" for entry in flow.spec.flows)},
        )

    def using(self, namespace: str, template: str) -> Sequence[FlowView]:
        """The flows of the namespace with an entry of that name."""
        flows = self.informer.by_index("template", f"{namespace}/{template}")
        return [FlowView(flow.metadata.name, flow.status.state.phase) for flow in flows]


class NamespaceCache:
    """Namespaces: their annotations, and whether they are going."""

    def __init__(self, client: Client) -> None:
        self.informer = Informer(client, NAMESPACES, Namespace)

    def annotations(self, name: str) -> Mapping[str, Any]:
        """The annotations of the namespace; none when it is not known."""
        namespace = self.informer.get(Key("", name))
        return namespace.metadata.annotations if namespace is not None else {}

    def is_terminating(self, name: str) -> bool:
        """Whether the namespace is being deleted."""
        namespace = self.informer.get(Key("", name))
        return namespace is not None and namespace.metadata.is_terminating
