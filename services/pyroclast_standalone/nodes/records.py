"""What the nodes keep of the objects they watch: pods with all that is needed to run them, and nodes.

Separate from the records of the other services, which need far less of a container.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec

from pyroclast.api.records.meta import Condition, ObjectRecord, Wire

__all__ = ["Container", "EnvironmentVariable", "Mount", "Node", "Pod", "Probe", "Requirements"]

Json: TypeAlias = Mapping[str, Any]
Quantities: TypeAlias = Mapping[str, str | int | float]  # resource name to quantity, unparsed
_NOTHING: Final[Mapping[str, Any]] = {}


class EnvironmentVariable(Wire, frozen=True, kw_only=True):
    """One entry of `env`: a value, or where it comes from."""

    name: str = ""
    value: str = ""
    value_from: Json | None = None


class Mount(Wire, frozen=True, kw_only=True):
    """Where a volume is seen in a container."""

    name: str = ""
    mount_path: str = ""
    sub_path: str = ""
    read_only: bool = False


class Requirements(Wire, frozen=True, kw_only=True):
    """Resources of a container."""

    requests: Quantities = _NOTHING
    limits: Quantities = _NOTHING


class Probe(Wire, frozen=True, kw_only=True):
    """A probe. Seconds and counts as in the API; zero means the API's default."""

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


class PodSpec(Wire, frozen=True, kw_only=True):
    """The part of a pod's specification that its node acts on."""

    node_name: str = ""
    restart_policy: str = "Always"
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    service_account_name: str = ""
    hostname: str = ""
    subdomain: str = ""
    host_network: bool = False
    host_aliases: tuple[Json, ...] = ()
    enable_service_links: bool = True
    overhead: Quantities = _NOTHING
    readiness_gates: tuple[Json, ...] = ()
    init_containers: tuple[Container, ...] = ()
    containers: tuple[Container, ...] = ()
    volumes: tuple[Json, ...] = ()


class PodStatus(Wire, frozen=True, kw_only=True):
    """What was written of a pod so far."""

    phase: str = ""
    reason: str = ""
    start_time: str | None = None
    # "podIP" is not what the naming rule makes of it
    pod_ip: str = msgspec.field(default="", name="podIP")
    conditions: tuple[Condition, ...] = ()
    init_container_statuses: tuple[Json, ...] = ()
    container_statuses: tuple[Json, ...] = ()


class Pod(ObjectRecord, frozen=True, kw_only=True):
    """A pod as its node sees it."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class NodeStatus(Wire, frozen=True, kw_only=True):
    """What was written of a node so far."""

    capacity: Quantities = _NOTHING
    allocatable: Quantities = _NOTHING
    conditions: tuple[Condition, ...] = ()
    daemon_endpoints: Json = _NOTHING


class NodeSpec(Wire, frozen=True, kw_only=True):
    """The part of a node's specification that concerns its start."""

    taints: tuple[Json, ...] = ()


class Node(ObjectRecord, frozen=True, kw_only=True):
    """A node."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
