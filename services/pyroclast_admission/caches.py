"""What the service keeps of the cluster beside queues, so that no request waits for the API server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pyroclast.api.records import JobFlow, JobTemplate, Namespace, PriorityClass
from pyroclast.api.types import JOB_FLOWS, JOB_TEMPLATES, NAMESPACES, PRIORITY_CLASSES, Key
from pyroclast.kube.http.client import Client
from pyroclast.kube.watch.informer import Informer
from pyroclast.lifecycle.flow import expressions
from pyroclast.lifecycle.flow.patch import patched
from pyroclast.rules.lookups import FlowView
from pyroclast.rules.values import mapping

__all__ = ["FlowCache", "NamespaceCache", "PriorityCache", "TemplateCache", "flow_view"]


_OWN_CLASSES: Final = frozenset({"system-cluster-critical", "system-node-critical"})


def flow_view(flow: JobFlow) -> FlowView | None:
    """What the rules see of a flow that an informer holds; None of one that is going, as it needs no template any more."""
    return None if flow.metadata.is_terminating else FlowView(flow.metadata.name, flow.status.state.phase)


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
