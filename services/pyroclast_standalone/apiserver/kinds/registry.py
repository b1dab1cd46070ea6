"""The built-in kinds with rules of their own. Other kinds are stored by their schema alone."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from pyroclast_standalone.apiserver.kinds import (
    access,
    core_cluster,
    core_config,
    core_services,
    definitions,
    hooks,
    pods,
    workloads,
)
from pyroclast_standalone.apiserver.kinds.builtin import BuiltinStrategy
from pyroclast_standalone.apiserver.kinds.builtins import BUILTINS
from pyroclast_standalone.apiserver.kinds.custom import CustomStrategy
from pyroclast_standalone.apiserver.kinds.rules import Rules
from pyroclast_standalone.apiserver.kinds.strategy import Strategy

_NO_ENDPOINTS: Final = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
_RULES: Final[Mapping[tuple[str, str], Rules]] = {
    ("", "ConfigMap"): core_config.CONFIG_MAP,
    ("", "Endpoints"): Rules(deprecation=_NO_ENDPOINTS),
    ("", "Event"): access.EVENT,
    ("", "LimitRange"): workloads.LIMIT_RANGE,
    ("", "Namespace"): core_cluster.NAMESPACE,
    ("", "Node"): core_cluster.NODE,
    ("", "PersistentVolume"): core_cluster.PERSISTENT_VOLUME,
    ("", "PersistentVolumeClaim"): core_cluster.PERSISTENT_VOLUME_CLAIM,
    ("", "Pod"): pods.POD,
    ("", "ReplicationController"): workloads.REPLICATION_CONTROLLER,
    ("", "ResourceQuota"): core_config.RESOURCE_QUOTA,
    ("", "Secret"): core_config.SECRET,
    ("", "Service"): core_services.SERVICE,
    ("", "ServiceAccount"): core_config.SERVICE_ACCOUNT,
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"): workloads.POLICY,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): hooks.WEBHOOKS,
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): workloads.POLICY,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): hooks.WEBHOOKS,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): definitions.CUSTOM_RESOURCE_DEFINITION,
    ("apps", "DaemonSet"): workloads.DAEMON_SET,
    ("apps", "Deployment"): workloads.DEPLOYMENT,
    ("apps", "ReplicaSet"): workloads.REPLICA_SET,
    ("apps", "StatefulSet"): workloads.STATEFUL_SET,
    ("autoscaling", "HorizontalPodAutoscaler"): workloads.AUTOSCALER,
    ("batch", "CronJob"): workloads.CRON_JOB,
    ("batch", "Job"): workloads.JOB,
    ("coordination.k8s.io", "Lease"): access.LEASE,
    ("events.k8s.io", "Event"): access.REGARDING_EVENT,
    ("networking.k8s.io", "Ingress"): workloads.INGRESS,
    ("networking.k8s.io", "NetworkPolicy"): access.NETWORK_POLICY,
    ("policy", "PodDisruptionBudget"): workloads.BUDGET,
    ("rbac.authorization.k8s.io", "ClusterRole"): access.CLUSTER_ROLE,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): access.CLUSTER_ROLE_BINDING,
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

    Raises:
        KeyError: no such built-in kind is served.
    """
    return _by_kind()[group, version, kind]


def custom_strategy(definition: Mapping[str, Any], version: str) -> Strategy:
    """Return the strategy of one served version of a CustomResourceDefinition."""
    return CustomStrategy(definition, version)
