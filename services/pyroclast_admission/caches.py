"""The informers of the admission service, except those of queues. With them, no review waits for the API server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pyroclast.api.records import JobFlow, JobTemplate, Namespace, PriorityClass, ResourceQuota
from pyroclast.api.types import JOB_FLOWS, JOB_TEMPLATES, NAMESPACES, PRIORITY_CLASSES, RESOURCE_QUOTAS, Key
from pyroclast.kube.http.client import Client
from pyroclast.kube.watch.informer import Informer
from pyroclast.lifecycle.flow.checks import EntryKnowledge
from pyroclast.rules.lookups import FlowView
from pyroclast.rules.values import amount, mapping, mappings, string_items

_OWN_CLASSES: Final = frozenset({"system-cluster-critical", "system-node-critical"})


def flow_view(flow: JobFlow) -> FlowView | None:
    """Return the name and phase of a JobFlow for the rules. None for a deleted flow, which needs no template any more."""
    return None if flow.metadata.is_terminating else FlowView(flow.metadata.name, flow.status.state.phase)


class FlowCache:
    """An informer of JobFlows with an index by the templates that their entries name."""

    def __init__(self, client: Client) -> None:
        self.informer = Informer(
            client,
            JOB_FLOWS,
            JobFlow,
            indexers={"template": lambda flow: (f"{flow.metadata.namespace}/{entry.name}" for entry in flow.spec.flows)},
        )

    def using(self, namespace: str, template: str) -> Sequence[FlowView]:
        """Return the flows in `namespace` that have an entry with the name `template` and are not being deleted."""
        flows = self.informer.by_index("template", f"{namespace}/{template}")
        return [view for flow in flows if (view := flow_view(flow)) is not None]


class TemplateCache(EntryKnowledge):
    """An informer of JobTemplates, with which the rules check the entries of flows."""

    def __init__(self, client: Client) -> None:
        super().__init__(self._spec)
        self.informer = Informer(client, JOB_TEMPLATES, JobTemplate)

    def _spec(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        template = self.informer.get(Key(namespace, name))
        return msgspec.json.decode(bytes(template.spec)) if template is not None and bytes(template.spec) else None


class PriorityCache:
    """The names of the PriorityClasses. The two `system-` classes of Kubernetes exist on every cluster."""

    def __init__(self, client: Client) -> None:
        self.informer = Informer(client, PRIORITY_CLASSES, PriorityClass)

    def __contains__(self, name: object) -> bool:
        return name in _OWN_CLASSES or self.informer.get(Key("", str(name))) is not None


class QuotaCache:
    """An informer of ResourceQuotas, for the PriorityClasses that they forbid in their namespace."""

    def __init__(self, client: Client) -> None:
        self.informer = Informer(
            client, RESOURCE_QUOTAS, ResourceQuota, indexers={"namespace": lambda quota: (quota.metadata.namespace,)}
        )

    def forbidding(self, namespace: str, class_name: str) -> str:
        """Return the name of a quota that allows no pods of the PriorityClass; empty when there is none."""
        quotas = self.informer.by_index("namespace", namespace)
        return min((quota.metadata.name for quota in quotas if forbids(quota, class_name)), default="")


_OF_PODS: Final = frozenset({"pods", "count/pods", "cpu", "memory", "requests.cpu", "requests.memory"})


def forbids(quota: ResourceQuota, class_name: str) -> bool:
    """Whether the quota is for pods of this PriorityClass alone, and allows none of them."""
    rules = [each for _, each in mappings(mapping(quota.spec.scope_selector).get("matchExpressions"))]
    if not rules or any(each.get("scopeName") != "PriorityClass" or not _selects(each, class_name) for each in rules):
        return False
    return not quota.spec.scopes and any(
        name in _OF_PODS and (limit := amount(value)) is not None and limit.millis <= 0 for name, value in quota.spec.hard.items()
    )


def _selects(rule: Mapping[str, Any], class_name: str) -> bool:
    is_in = class_name in string_items(rule.get("values"))
    return {"In": is_in, "NotIn": not is_in, "Exists": True}.get(str(rule.get("operator")), False)


class NamespaceCache:
    """An informer of Namespaces, for their annotations."""

    def __init__(self, client: Client) -> None:
        self.informer = Informer(client, NAMESPACES, Namespace)

    def annotations(self, name: str) -> Mapping[str, Any]:
        """Return the annotations of the namespace, empty when the namespace does not exist."""
        namespace = self.informer.get(Key("", name))
        return namespace.metadata.annotations if namespace is not None else {}
