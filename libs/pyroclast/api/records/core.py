"""The records of small built-in kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pyroclast.api.records.meta import ObjectRecord, Wire

__all__ = [
    "ConfigMap",
    "Namespace",
    "NamespaceStatus",
    "NetworkPolicy",
    "PersistentVolumeClaim",
    "PersistentVolumeClaimSpec",
    "PersistentVolumeClaimStatus",
    "PodDisruptionBudget",
    "PodDisruptionBudgetSpec",
    "PodDisruptionBudgetStatus",
    "PriorityClass",
    "ResourceQuota",
    "ResourceQuotaSpec",
    "ResourceQuotaStatus",
    "Secret",
    "Service",
    "ServiceSpec",
]


class NamespaceStatus(Wire, frozen=True, kw_only=True):
    """The phase of a namespace: Active or Terminating."""

    phase: str = ""


class Namespace(ObjectRecord, frozen=True, kw_only=True):
    """A namespace."""

    status: NamespaceStatus = NamespaceStatus()


class ConfigMap(ObjectRecord, frozen=True, kw_only=True):
    """A ConfigMap."""

    data: Mapping[str, str] = {}


class Secret(ObjectRecord, frozen=True, kw_only=True):
    """A Secret; the values of `data` are base64."""

    type: str = ""
    data: Mapping[str, str] = {}


class ServiceSpec(Wire, frozen=True, kw_only=True):
    """Which pods a Service stands for."""

    selector: Mapping[str, str] = {}
    cluster_ip: str = msgspec.field(default="", name="clusterIP")


class Service(ObjectRecord, frozen=True, kw_only=True):
    """A Service."""

    spec: ServiceSpec = ServiceSpec()


class NetworkPolicy(ObjectRecord, frozen=True, kw_only=True):
    """A NetworkPolicy, of which only the existence matters."""


class PersistentVolumeClaimSpec(Wire, frozen=True, kw_only=True):
    """What a claim asks for, and what it is bound to; `resources` and `selector` as they came."""

    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: tuple[str, ...] = ()
    volume_mode: str = "Filesystem"
    resources: Mapping[str, Any] | None = None
    selector: Mapping[str, Any] | None = None


class PersistentVolumeClaimStatus(Wire, frozen=True, kw_only=True):
    """Pending, Bound or Lost."""

    phase: str = ""


class PersistentVolumeClaim(ObjectRecord, frozen=True, kw_only=True):
    """A claim."""

    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class ResourceQuotaSpec(Wire, frozen=True, kw_only=True):
    """The limits of a namespace; `scope_selector` as it came."""

    hard: Mapping[str, str | int] = {}
    scopes: tuple[str, ...] = ()
    scope_selector: Mapping[str, Any] | None = None


class ResourceQuotaStatus(Wire, frozen=True, kw_only=True):
    """The limits in force and what is used of them."""

    hard: Mapping[str, str | int] = {}
    used: Mapping[str, str | int] = {}


class ResourceQuota(ObjectRecord, frozen=True, kw_only=True):
    """A quota."""

    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()


class PodDisruptionBudgetSpec(Wire, frozen=True, kw_only=True):
    """Whose disruptions are counted; the label selector as it came."""

    selector: Mapping[str, Any] | None = None


class PodDisruptionBudgetStatus(Wire, frozen=True, kw_only=True):
    """How many pods may go now, and which are going already: times by name of the pod."""

    disruptions_allowed: int = 0
    disrupted_pods: Mapping[str, str] = {}


class PodDisruptionBudget(ObjectRecord, frozen=True, kw_only=True):
    """How many pods of an application must stay."""

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class PriorityClass(ObjectRecord, frozen=True, kw_only=True):
    """A priority by name."""

    value: int = 0
    global_default: bool = False
    preemption_policy: str = ""
