"""The kinds about nodes: their NUMA topology as its exporter reports it, shards of nodes, and the configuration of colocation.

A Numatopology has the name of its node.
"""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Le
from pydantic import Field

from pyroclast.api import types
from pyroclast.api.shared import AGE, Condition, CustomKind
from pyroclast.api.wire import ApiObject, Extra, LabelSelector, Time, WireModel

_Percent = Annotated[int, Ge(0), Le(100)]


class MemoryQos(WireModel):
    """Memory settings, in percent of the limit or request."""

    high_ratio: _Percent = 100
    """The percentage of its limit from which a container is slowed down."""
    low_ratio: _Percent = 0
    """The percentage of its request that is protected as long as possible."""
    min_ratio: _Percent = 0
    """The percentage of its request that is always protected."""


class ColocationConfigurationSpec(WireModel):
    """The settings, and the pods to which they apply."""

    selector: LabelSelector | None = None
    """Selects the pods of the namespace to which the settings apply: none when absent, all when empty."""
    memory_qos: MemoryQos | None = None
    """Memory settings."""


class ColocationConfigurationStatus(WireModel):
    """The state of the settings."""

    conditions: (
        Annotated[list[Condition], Extra({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]})] | None
    ) = None
    """Conditions of the settings."""


class ColocationConfiguration(ApiObject):
    """A ColocationConfiguration sets the memory protection of the pods it selects."""

    spec: ColocationConfigurationSpec
    """The settings, and the pods to which they apply."""
    status: ColocationConfigurationStatus | None = None
    """The state of the settings."""


COLOCATION_CONFIGURATION = CustomKind(types.COLOCATION_CONFIGURATIONS, ColocationConfiguration)


class NodeShardSpec(WireModel):
    """The nodes that a scheduler should use."""

    nodes_desired: list[str]
    """Names of the nodes."""


class NodeShardStatus(WireModel):
    """The nodes that a scheduler uses."""

    last_update_time: Time | None = None
    """When the status was last written."""
    nodes_in_use: list[str] | None = None
    """Nodes that the scheduler uses."""
    nodes_to_add: list[str] | None = None
    """Nodes that the scheduler will add."""
    nodes_to_remove: list[str] | None = None
    """Nodes that the scheduler will give up."""


class NodeShard(ApiObject):
    """A NodeShard is the set of nodes that the scheduler of the same name may use."""

    spec: NodeShardSpec
    """The nodes that the scheduler should use."""
    status: NodeShardStatus | None = None
    """The nodes that the scheduler uses."""


NODE_SHARD = CustomKind(types.NODE_SHARDS, NodeShard, ("nsh",), (AGE,))


_Index = Annotated[int, Ge(0)]


class ResourceInfo(WireModel):
    """A resource of the node."""

    allocatable: str | None = None
    """The set of CPUs that can be allocated, such as `0,2-4`."""
    capacity: int | None = None
    """The total amount of the resource."""


class CpuInfo(WireModel):
    """The position of a CPU."""

    numa: _Index | None = None
    """The NUMA node of the CPU."""
    socket: _Index | None = None
    """The socket of the CPU."""
    core: _Index | None = None
    """The core of the CPU."""


class ContainerAllocation(WireModel):
    """The allocated resources of a container."""

    name: str | None = None
    """Name of the container."""
    allocations: dict[str, str] | None = None
    """Resources by name: a set of CPUs for cpu, a quantity for other resources."""


class PodAllocation(WireModel):
    """The allocated resources of a pod."""

    uid: str | None = None
    """UID of the pod."""
    name: str | None = None
    """Name of the pod."""
    namespace: str | None = None
    """Namespace of the pod."""
    container_allocations: list[ContainerAllocation] | None = None
    """The allocated resources of the pod's containers."""


class NumatopologySpec(WireModel):
    """The NUMA topology of a node."""

    policies: dict[str, str] | None = None
    """Policies of the kubelet: CPUManagerPolicy and TopologyManagerPolicy."""
    res_reserved: dict[str, str] | None = None
    """Quantities that are reserved for the node itself."""
    numa_resources: Annotated[dict[str, ResourceInfo] | None, Field(alias="numares")] = None
    """Resources by name."""
    cpu_detail: dict[str, CpuInfo] | None = None
    """CPUs by number."""
    pod_allocations: list[PodAllocation] | None = None
    """The allocated resources of the pods on the node."""


class Numatopology(ApiObject):
    """A Numatopology shows the NUMA topology of the node of the same name."""

    spec: NumatopologySpec | None = None
    """The NUMA topology of the node."""


NUMATOPOLOGY = CustomKind(types.NUMATOPOLOGIES, Numatopology, ("numatopo",), has_status=False)
