"""The records of small built-in kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from pyroclast.api.records.meta import ObjectRecord, Wire


class NamespaceStatus(Wire, frozen=True, kw_only=True):
    phase: str = ""


class Namespace(ObjectRecord, frozen=True, kw_only=True):
    status: NamespaceStatus = NamespaceStatus()


class ConfigMap(ObjectRecord, frozen=True, kw_only=True):
    data: Mapping[str, str] = {}


class Secret(ObjectRecord, frozen=True, kw_only=True):
    """A Secret; the values of `data` are base64."""

    type: str = ""
    data: Mapping[str, str] = {}


class ServiceSpec(Wire, frozen=True, kw_only=True):
    selector: Mapping[str, str] = {}
    cluster_ip: str = msgspec.field(default="", name="clusterIP")


class Service(ObjectRecord, frozen=True, kw_only=True):
    spec: ServiceSpec = ServiceSpec()


class NetworkPolicy(ObjectRecord, frozen=True, kw_only=True):
    """A NetworkPolicy, of which only the existence is used."""


class PersistentVolumeClaimSpec(Wire, frozen=True, kw_only=True):
    """The request of a claim, and the volume to which it is bound; `resources` and `selector` are unparsed."""

    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: tuple[str, ...] = ()
    volume_mode: str = "Filesystem"
    resources: Mapping[str, Any] | None = None
    selector: Mapping[str, Any] | None = None


class PersistentVolumeClaimStatus(Wire, frozen=True, kw_only=True):
    phase: str = ""


class PersistentVolumeClaim(ObjectRecord, frozen=True, kw_only=True):
    ESSENTIAL: ClassVar = ("spec",)

    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class ResourceQuotaSpec(Wire, frozen=True, kw_only=True):
    """The limits of a namespace; `scope_selector` is unparsed."""

    hard: Mapping[str, str | int] = {}
    scopes: tuple[str, ...] = ()
    scope_selector: Mapping[str, Any] | None = None


class ResourceQuotaStatus(Wire, frozen=True, kw_only=True):
    hard: Mapping[str, str | int] = {}
    used: Mapping[str, str | int] = {}


class ResourceQuota(ObjectRecord, frozen=True, kw_only=True):
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()


class PodDisruptionBudgetSpec(Wire, frozen=True, kw_only=True):
    """The pods of a disruption budget; the label selector is unparsed."""

    selector: Mapping[str, Any] | None = None


class PodDisruptionBudgetStatus(Wire, frozen=True, kw_only=True):
    """How many pods may be disrupted now, and the pods that are being disrupted: times by name of the pod."""

    disruptions_allowed: int = 0
    disrupted_pods: Mapping[str, str] = {}


class PodDisruptionBudget(ObjectRecord, frozen=True, kw_only=True):
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class LimitRangeSpec(Wire, frozen=True, kw_only=True):
    """The limits and defaults of a namespace, one for each type of objects, unparsed."""

    limits: tuple[Mapping[str, Any], ...] = ()


class LimitRange(ObjectRecord, frozen=True, kw_only=True):
    spec: LimitRangeSpec = LimitRangeSpec()


class Overhead(Wire, frozen=True, kw_only=True):
    pod_fixed: Mapping[str, str | int] = {}


class RuntimeClass(ObjectRecord, frozen=True, kw_only=True):
    overhead: Overhead | None = None


class PriorityClass(ObjectRecord, frozen=True, kw_only=True):
    value: int = 0
    global_default: bool = False
    preemption_policy: str = ""
