"""The built-in kinds with rules of their own. Other kinds are stored by their schema alone.

Kinds whose controllers do not run here are stored by their schema with the main defaults, and a create warns.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from pyroclast.resources.pods import as_stored_limit
from pyroclast_standalone.apiserver.kinds import access, core_cluster, core_config, core_services, definitions, hooks, pods
from pyroclast_standalone.apiserver.kinds.builtin import BuiltinStrategy
from pyroclast_standalone.apiserver.kinds.builtins import BUILTINS
from pyroclast_standalone.apiserver.kinds.custom import CustomStrategy
from pyroclast_standalone.apiserver.kinds.rules import Default, Rules
from pyroclast_standalone.apiserver.kinds.strategy import Strategy

_NO_PODS: Final = "no pods will be made from this one"


def _rolling(field: str, **values: int | str) -> Default:
    """Return the defaults of a strategy of updates."""

    def default(document: dict[str, Any]) -> None:
        strategy = document["spec"][field]
        if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
            strategy["rollingUpdate"] = values | strategy.get("rollingUpdate", {})

    return default


def _idle(kinds: str, why: str, *, default: Default = lambda _: None, generation: bool = True) -> Rules:
    text = f"the embedded control plane stores {kinds} and runs nothing for them: {why}"
    return Rules(default=default, warnings=lambda _document, old: [text] if old is None else [], generation=generation)


def _default_range(document: dict[str, Any]) -> None:
    spec = document.setdefault("spec", {})
    spec["limits"] = list(map(as_stored_limit, spec.get("limits") or ()))


_POLICY: Final = _idle("admission policies", "this one will neither refuse nor change anything; admission webhooks are called")
_NO_ENDPOINTS: Final = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
_RULES: Final[Mapping[tuple[str, str], Rules]] = {
    ("", "ConfigMap"): core_config.CONFIG_MAP,
    ("", "Endpoints"): Rules(deprecation=_NO_ENDPOINTS),
    ("", "Event"): access.EVENT,
    ("", "LimitRange"): _idle(
        "LimitRanges", "this one sets its defaults in new pods, and refuses nothing", default=_default_range, generation=False
    ),
    ("", "Namespace"): core_cluster.NAMESPACE,
    ("", "Node"): core_cluster.NODE,
    ("", "PersistentVolume"): core_cluster.PERSISTENT_VOLUME,
    ("", "PersistentVolumeClaim"): core_cluster.PERSISTENT_VOLUME_CLAIM,
    ("", "Pod"): pods.POD,
    ("", "ReplicationController"): _idle("ReplicationControllers", _NO_PODS),
    ("", "ResourceQuota"): core_config.RESOURCE_QUOTA,
    ("", "Secret"): core_config.SECRET,
    ("", "Service"): core_services.SERVICE,
    ("", "ServiceAccount"): core_config.SERVICE_ACCOUNT,
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"): _POLICY,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): hooks.WEBHOOKS,
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): _POLICY,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): hooks.WEBHOOKS,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): definitions.CUSTOM_RESOURCE_DEFINITION,
    ("apps", "DaemonSet"): _idle("DaemonSets", _NO_PODS, default=_rolling("updateStrategy", maxUnavailable=1, maxSurge=0)),
    ("apps", "Deployment"): _idle("Deployments", _NO_PODS, default=_rolling("strategy", maxUnavailable="25%", maxSurge="25%")),
    ("apps", "ReplicaSet"): _idle("ReplicaSets", _NO_PODS),
    ("apps", "StatefulSet"): _idle("StatefulSets", _NO_PODS, default=_rolling("updateStrategy", partition=0)),
    ("autoscaling", "HorizontalPodAutoscaler"): _idle(
        "HorizontalPodAutoscalers", "nothing will be scaled by this one", generation=False
    ),
    ("batch", "CronJob"): _idle("CronJobs of the batch group", _NO_PODS),
    ("batch", "Job"): _idle("Jobs of the batch group", _NO_PODS),
    ("coordination.k8s.io", "Lease"): access.LEASE,
    ("events.k8s.io", "Event"): access.REGARDING_EVENT,
    ("networking.k8s.io", "Ingress"): _idle("Ingresses", "no traffic will come in by this one"),
    ("networking.k8s.io", "NetworkPolicy"): access.NETWORK_POLICY,
    ("policy", "PodDisruptionBudget"): _idle("PodDisruptionBudgets", "evictions will not be held back by this one"),
    ("rbac.authorization.k8s.io", "ClusterRole"): access.ROLE,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): access.ROLE_BINDING,
    ("rbac.authorization.k8s.io", "Role"): access.ROLE,
    ("rbac.authorization.k8s.io", "RoleBinding"): access.ROLE_BINDING,
    ("scheduling.k8s.io", "PriorityClass"): access.PRIORITY_CLASS,
    ("storage.k8s.io", "StorageClass"): core_cluster.STORAGE_CLASS,
}
_UNCOUNTED: Final = {"ControllerRevision", "CSIDriver", "CSINode", "CSIStorageCapacity", "RuntimeClass"}


def _stored(kind: str) -> Rules:
    return Rules(generation=kind not in _UNCOUNTED)


@cache
def builtin_strategies() -> tuple[Strategy, ...]:
    """Return the strategies of all built-in resources, in the order of the table of built-in kinds."""
    return tuple(BuiltinStrategy(each, _RULES.get((each.group, each.kind)) or _stored(each.kind)) for each in BUILTINS)


@cache
def _by_kind() -> Mapping[tuple[str, str, str], Strategy]:
    return {(each.group, each.version, each.kind): each for each in builtin_strategies()}


def strategy_of(group: str, version: str, kind: str) -> Strategy:
    """Return the strategy of a built-in kind. The group of core kinds is empty.

    Raises KeyError: no such built-in kind is served.
    """
    return _by_kind()[group, version, kind]


def custom_strategy(definition: Mapping[str, Any], version: str) -> Strategy:
    """Return the strategy of one served version of a CustomResourceDefinition."""
    return CustomStrategy(definition, version)
