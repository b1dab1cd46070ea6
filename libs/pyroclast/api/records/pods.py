"""The record of a Pod, with the fields that controllers and the scheduler read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from pyroclast.api.enums import PodPhase
from pyroclast.api.records.meta import Condition, ObjectRecord, Wire


class Resources(Wire, frozen=True, kw_only=True):
    """The requests and limits of a container, and the claims to which it refers."""

    requests: Mapping[str, str | int] = {}
    limits: Mapping[str, str | int] = {}
    claims: tuple[Mapping[str, Any], ...] = ()


class ContainerPort(Wire, frozen=True, kw_only=True):
    name: str = ""
    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class Container(Wire, frozen=True, kw_only=True):
    """A container. `restart_policy` "Always" makes an init container a sidecar."""

    name: str = ""
    image: str = ""
    resources: Resources = Resources()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""


class ClaimSource(Wire, frozen=True, kw_only=True):
    claim_name: str = ""
    read_only: bool = False


class Volume(Wire, frozen=True, kw_only=True):
    """A volume, with the sources that placement depends on. Other volumes only have their name."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: Mapping[str, Any] | None = None
    csi: Mapping[str, Any] | None = None
    gce_persistent_disk: Mapping[str, Any] | None = None
    aws_elastic_block_store: Mapping[str, Any] | None = None
    azure_disk: Mapping[str, Any] | None = None
    iscsi: Mapping[str, Any] | None = None
    rbd: Mapping[str, Any] | None = None


class Toleration(Wire, frozen=True, kw_only=True):
    """A taint that the pod tolerates. An empty operator means Equal; `toleration_seconds` None means forever."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class SchedulingGate(Wire, frozen=True, kw_only=True):
    name: str = ""


class SchedulingGroup(Wire, frozen=True, kw_only=True):
    pod_group_name: str = ""


class PodSpec(Wire, frozen=True, kw_only=True):
    """The requirements and the placement of a pod. `affinity`, constraints and claims are unparsed."""

    node_name: str = ""
    scheduler_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    restart_policy: str = ""
    host_network: bool = False
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    scheduling_group: SchedulingGroup | None = None
    node_selector: Mapping[str, str] = {}
    affinity: Mapping[str, Any] | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[Mapping[str, Any], ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resources: Resources | None = None
    overhead: Mapping[str, str | int] = {}
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[Mapping[str, Any], ...] = ()


class Waiting(Wire, frozen=True, kw_only=True):
    reason: str = ""
    message: str = ""


class Terminated(Wire, frozen=True, kw_only=True):
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None


class ContainerState(Wire, frozen=True, kw_only=True):
    """The state of a container: waiting, terminated, or running when both fields are None."""

    waiting: Waiting | None = None
    terminated: Terminated | None = None


class ContainerStatus(Wire, frozen=True, kw_only=True):
    name: str = ""
    ready: bool = False
    restart_count: int = 0
    resources: Resources | None = None
    allocated_resources: Mapping[str, str | int] = {}
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodStatus(Wire, frozen=True, kw_only=True):
    phase: PodPhase = PodPhase.PENDING
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    nominated_node_name: str = ""
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    start_time: str | None = None
    pod_ip: str = msgspec.field(default="", name="podIP")
    qos_class: str = ""
    resource_claim_statuses: tuple[Mapping[str, Any], ...] = ()


class Pod(ObjectRecord, frozen=True, kw_only=True):
    ESSENTIAL: ClassVar = ("spec.nodeName", "spec.schedulerName", "status.phase")

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
