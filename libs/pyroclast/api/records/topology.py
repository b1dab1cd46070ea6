"""The records of HyperNode, Numatopology and NodeShard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from pyroclast.api.enums import MemberType
from pyroclast.api.records.meta import ObjectRecord, Wire


class ExactMatch(Wire, frozen=True, kw_only=True):
    name: str = ""


class RegexMatch(Wire, frozen=True, kw_only=True):
    pattern: str = ""


class MemberSelector(Wire, frozen=True, kw_only=True):
    """A selector of members, with exactly one field set; `label_match` is unparsed."""

    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: Mapping[str, Any] | None = None


class HyperNodeMember(Wire, frozen=True, kw_only=True):
    type: MemberType = MemberType.NODE
    selector: MemberSelector | None = None


class HyperNodeSpec(Wire, frozen=True, kw_only=True):
    """The position of a HyperNode in the network; in a lower tier, the nodes are closer together."""

    tier: int = 0
    tier_name: str = ""
    members: tuple[HyperNodeMember, ...] = ()


class HyperNodeStatus(Wire, frozen=True, kw_only=True):
    node_count: int = 0


class HyperNode(ObjectRecord, frozen=True, kw_only=True):
    spec: HyperNodeSpec = HyperNodeSpec()
    status: HyperNodeStatus = HyperNodeStatus()


class NumaResource(Wire, frozen=True, kw_only=True):
    """A resource by NUMA node; `allocatable` is a CPU set such as `0,2-4`."""

    allocatable: str = ""
    capacity: int = 0


class CpuInfo(Wire, frozen=True, kw_only=True):
    numa: int = 0
    socket: int = 0
    core: int = 0


class ContainerAllocation(Wire, frozen=True, kw_only=True):
    """The allocated resources of a container; the value of `cpu` is a CPU set, other values are quantities."""

    name: str = ""
    allocations: Mapping[str, str] = {}


class PodAllocation(Wire, frozen=True, kw_only=True):
    uid: str = ""
    name: str = ""
    namespace: str = ""
    container_allocations: tuple[ContainerAllocation, ...] = ()


class NumatopologySpec(Wire, frozen=True, kw_only=True):
    policies: Mapping[str, str] = {}
    res_reserved: Mapping[str, str] = {}
    numa_resources: Mapping[str, NumaResource] = msgspec.field(default_factory=dict, name="numares")
    cpu_detail: Mapping[str, CpuInfo] = {}
    pod_allocations: tuple[PodAllocation, ...] = ()


class Numatopology(ObjectRecord, frozen=True, kw_only=True):
    spec: NumatopologySpec = NumatopologySpec()


class NodeShardSpec(Wire, frozen=True, kw_only=True):
    nodes_desired: tuple[str, ...] = ()


class NodeShardStatus(Wire, frozen=True, kw_only=True):
    last_update_time: str | None = None
    nodes_in_use: tuple[str, ...] = ()
    nodes_to_add: tuple[str, ...] = ()
    nodes_to_remove: tuple[str, ...] = ()


class NodeShard(ObjectRecord, frozen=True, kw_only=True):
    ESSENTIAL: ClassVar = ("spec",)

    spec: NodeShardSpec = NodeShardSpec()
    status: NodeShardStatus = NodeShardStatus()
