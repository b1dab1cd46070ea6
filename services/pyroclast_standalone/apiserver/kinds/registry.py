"""All built-in kinds whose rules are known; any other built-in kind gets the rules that all share."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from pyroclast_standalone.apiserver.builtins import BUILTINS

from . import (
    access,
    batch,
    core_cluster,
    core_config,
    core_events,
    core_services,
    definitions,
    endpoints,
    hooks,
    networking,
    persistent_volumes,
    pods,
    scheduling,
    storage,
    storage_drivers,
    workloads,
)
from .builtin import BuiltinStrategy
from .custom import CustomStrategy
from .rules import Rules
from .strategy import Strategy

__all__ = ["builtin_strategies", "custom_strategy", "strategy_of"]

_RULES: Final[Mapping[tuple[str, str], Rules]] = {
    ("", "ConfigMap"): core_config.CONFIG_MAP,
    ("", "Endpoints"): endpoints.ENDPOINTS,
    ("", "Event"): core_events.EVENT,
    ("", "LimitRange"): core_config.LIMIT_RANGE,
    ("", "Namespace"): core_cluster.NAMESPACE,
    ("", "Node"): core_cluster.NODE,
    ("", "PersistentVolume"): persistent_volumes.PERSISTENT_VOLUME,
    ("", "PersistentVolumeClaim"): storage.PERSISTENT_VOLUME_CLAIM,
    ("", "Pod"): pods.POD,
    ("", "PodTemplate"): workloads.POD_TEMPLATE,
    ("", "ReplicationController"): workloads.REPLICATION_CONTROLLER,
    ("", "ResourceQuota"): core_config.RESOURCE_QUOTA,
    ("", "Secret"): core_config.SECRET,
    ("", "Service"): core_services.SERVICE,
    ("", "ServiceAccount"): core_config.SERVICE_ACCOUNT,
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"): hooks.MUTATING_POLICY,
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"): hooks.MUTATING_POLICY_BINDING,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): hooks.MUTATING_WEBHOOKS,
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): hooks.VALIDATING_POLICY,
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"): hooks.VALIDATING_POLICY_BINDING,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): hooks.VALIDATING_WEBHOOKS,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): definitions.CUSTOM_RESOURCE_DEFINITION,
    ("apps", "ControllerRevision"): workloads.CONTROLLER_REVISION,
    ("apps", "DaemonSet"): workloads.DAEMON_SET,
    ("apps", "Deployment"): workloads.DEPLOYMENT,
    ("apps", "ReplicaSet"): workloads.REPLICA_SET,
    ("apps", "StatefulSet"): workloads.STATEFUL_SET,
    ("autoscaling", "HorizontalPodAutoscaler"): networking.HORIZONTAL_POD_AUTOSCALER,
    ("batch", "CronJob"): batch.CRON_JOB,
    ("batch", "Job"): batch.JOB,
    ("coordination.k8s.io", "Lease"): scheduling.LEASE,
    ("discovery.k8s.io", "EndpointSlice"): endpoints.ENDPOINT_SLICE,
    ("events.k8s.io", "Event"): core_events.REGARDING_EVENT,
    ("networking.k8s.io", "Ingress"): networking.INGRESS,
    ("networking.k8s.io", "IngressClass"): networking.INGRESS_CLASS,
    ("networking.k8s.io", "NetworkPolicy"): networking.NETWORK_POLICY,
    ("node.k8s.io", "RuntimeClass"): scheduling.RUNTIME_CLASS,
    ("policy", "PodDisruptionBudget"): scheduling.POD_DISRUPTION_BUDGET,
    ("rbac.authorization.k8s.io", "ClusterRole"): access.CLUSTER_ROLE,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): access.CLUSTER_ROLE_BINDING,
    ("rbac.authorization.k8s.io", "Role"): access.ROLE,
    ("rbac.authorization.k8s.io", "RoleBinding"): access.ROLE_BINDING,
    ("resource.k8s.io", "DeviceClass"): networking.PLAIN,
    ("resource.k8s.io", "ResourceClaim"): networking.PLAIN,
    ("resource.k8s.io", "ResourceClaimTemplate"): networking.PLAIN,
    ("resource.k8s.io", "ResourceSlice"): networking.PLAIN,
    ("scheduling.k8s.io", "PriorityClass"): scheduling.PRIORITY_CLASS,
    ("storage.k8s.io", "CSIDriver"): storage_drivers.CSI_DRIVER,
    ("storage.k8s.io", "CSINode"): storage_drivers.CSI_NODE,
    ("storage.k8s.io", "CSIStorageCapacity"): storage_drivers.CSI_STORAGE_CAPACITY,
    ("storage.k8s.io", "StorageClass"): storage.STORAGE_CLASS,
    ("storage.k8s.io", "VolumeAttachment"): storage_drivers.VOLUME_ATTACHMENT,
}


@cache
def builtin_strategies() -> tuple[Strategy, ...]:
    """The strategies of all built-in resources that are served, in the order of the table."""
    return tuple(BuiltinStrategy(resource, _RULES.get((resource.group, resource.kind), Rules())) for resource in BUILTINS)


@cache
def _by_kind() -> Mapping[tuple[str, str, str], Strategy]:
    return {(each.group, each.version, each.kind): each for each in builtin_strategies()}


def strategy_of(group: str, version: str, kind: str) -> Strategy:
    """The strategy of a built-in kind (the group of core kinds is empty).

    Raises:
        KeyError: no built-in kind that is served.
    """
    return _by_kind()[group, version, kind]


def custom_strategy(definition: Mapping[str, Any], version: str) -> Strategy:
    """The strategy of one served version of a CustomResourceDefinition."""
    return CustomStrategy(definition, version)
