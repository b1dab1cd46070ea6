"""What the service keeps of the cluster: queues, flows and namespaces, so that no request waits for the API server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec

from pyroclast.api.keys import HIERARCHY, HIERARCHY_WEIGHTS
from pyroclast.api.records import JobFlow, JobTemplate, Namespace, PriorityClass, Queue
from pyroclast.api.types import JOB_FLOWS, JOB_TEMPLATES, NAMESPACES, PRIORITY_CLASSES, QUEUES, Key
from pyroclast.kube.http.client import Client
from pyroclast.kube.watch.informer import Informer
from pyroclast.lifecycle.flow import expressions
from pyroclast.lifecycle.flow.patch import patched
from pyroclast.rules.amounts import amount
from pyroclast.rules.lookups import FlowView, QueueView
from pyroclast.rules.values import mapping

__all__ = ["FlowCache", "NamespaceCache", "PriorityCache", "QueueCache", "TemplateCache", "flow_view", "queue_view"]


_OWN_CLASSES: Final = frozenset({"system-cluster-critical", "system-node-critical"})


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


def flow_view(flow: JobFlow) -> FlowView | None:
    """What the rules see of a flow that an informer holds; None of one that is going, as it needs no template any more."""
    return None if flow.metadata.is_terminating else FlowView(flow.metadata.name, flow.status.state.phase)


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
        """Take a queue as it is now."""
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
        """The flows of the namespace with an entry of that name that are not going."""
        flows = self.informer.by_index("template", f"{namespace}/{template}")
        return [view for flow in flows if (view := flow_view(flow)) is not None]


class TemplateCache:
    """The JobTemplates, and what flows make of them."""

    def __init__(self, client: Client) -> None:
        self.informer = Informer(client, JOB_TEMPLATES, JobTemplate)

    def patched(self, namespace: str, entry: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The spec of the Job of an entry; None when its template is not known.

        Raises:
            PatchError: the patch of the entry does not fit.
        """
        template = self.informer.get(Key(namespace, str(entry.get("name") or "")))
        if template is None or not bytes(template.spec):
            return None
        return patched(msgspec.json.decode(bytes(template.spec)), mapping(entry.get("patch")))

    def expression_fault(self, source: str, *, in_loop: bool) -> str:
        """What is wrong with an expression; empty when nothing is."""
        return expressions.check(source, in_loop=in_loop)


class PriorityCache:
    """The names of the PriorityClasses. Kubernetes' own are there on every cluster."""

    def __init__(self, client: Client) -> None:
        self.informer = Informer(client, PRIORITY_CLASSES, PriorityClass)

    def __contains__(self, name: object) -> bool:
        return name in _OWN_CLASSES or self.informer.get(Key("", str(name))) is not None


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
