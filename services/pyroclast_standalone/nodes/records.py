"""The fields of watched objects that the nodes store: pods with all fields needed to run them, and nodes.

These records are separate from those of the other services, which need far fewer fields of a container.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec

from pyroclast.api.records.meta import Condition, ObjectRecord, Wire

Json: TypeAlias = Mapping[str, Any]
Quantities: TypeAlias = Mapping[str, str | int | float]  # resource name to quantity, unparsed
_NOTHING: Final[Mapping[str, Any]] = {}


class EnvironmentVariable(Wire, frozen=True, kw_only=True):
    """One entry of `env`: a value or its source."""

    name: str = ""
    value: str = ""
    value_from: Json | None = None


class Mount(Wire, frozen=True, kw_only=True):
    """The mount of a volume in a container."""

    name: str = ""
    mount_path: str = ""
    sub_path: str = ""


class Requirements(Wire, frozen=True, kw_only=True):
    """The resources of a container."""

    requests: Quantities = _NOTHING
    limits: Quantities = _NOTHING


class Probe(Wire, frozen=True, kw_only=True):
    """A probe. Seconds and counts are as in the API. Zero means the API's default."""

    exec: Json | None = None
    http_get: Json | None = None
    tcp_socket: Json | None = None
    grpc: Json | None = None
    initial_delay_seconds: int = 0
    timeout_seconds: int = 1
    period_seconds: int = 10
    success_threshold: int = 1
    failure_threshold: int = 3


class Container(Wire, frozen=True, kw_only=True):
    """A container to run."""

    name: str = ""
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    env: tuple[EnvironmentVariable, ...] = ()
    env_from: tuple[Json, ...] = ()
    resources: Requirements = Requirements()
    volume_mounts: tuple[Mount, ...] = ()
    ports: tuple[Json, ...] = ()
    restart_policy: str = ""
    termination_message_path: str = ""
    termination_message_policy: str = ""
    startup_probe: Probe | None = None
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    lifecycle: Json | None = None

    def probe(self, kind: str) -> Probe | None:
        """Return the probe of a kind: `startup`, `liveness` or `readiness`."""
        return {"startup": self.startup_probe, "liveness": self.liveness_probe, "readiness": self.readiness_probe}[kind]


class PodSpec(Wire, frozen=True, kw_only=True):
    """The fields of a pod's spec that its node uses."""

    node_name: str = ""
    restart_policy: str = "Always"
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    service_account_name: str = ""
    hostname: str = ""
    subdomain: str = ""
    host_network: bool = False
    host_aliases: tuple[Json, ...] = ()
    resources: Requirements | None = None
    overhead: Quantities = _NOTHING
    readiness_gates: tuple[Json, ...] = ()
    init_containers: tuple[Container, ...] = ()
    containers: tuple[Container, ...] = ()
    volumes: tuple[Json, ...] = ()


class PodStatus(Wire, frozen=True, kw_only=True):
    """The fields of a pod's status that were written last."""

    phase: str = ""
    reason: str = ""
    start_time: str | None = None
    # the naming rule would derive another name
    pod_ip: str = msgspec.field(default="", name="podIP")
    conditions: tuple[Condition, ...] = ()
    init_container_statuses: tuple[Json, ...] = ()
    container_statuses: tuple[Json, ...] = ()


class Pod(ObjectRecord, frozen=True, kw_only=True):
    """A pod as its node uses it."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class NodeStatus(Wire, frozen=True, kw_only=True):
    """The fields of a node's status that were written last."""

    capacity: Quantities = _NOTHING
    allocatable: Quantities = _NOTHING
    conditions: tuple[Condition, ...] = ()
    daemon_endpoints: Json = _NOTHING


class NodeSpec(Wire, frozen=True, kw_only=True):
    """The fields of a node's spec that are used at its start."""

    taints: tuple[Json, ...] = ()


class Node(ObjectRecord, frozen=True, kw_only=True):
    """A node."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
