"""Numatopology: the NUMA topology of a node, as its exporter reports it. The object has the name of the node."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge
from pydantic import Field

from pyroclast.api import types
from pyroclast.api.kinds import CustomKind
from pyroclast.api.wire import ApiObject, WireModel

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


KIND = CustomKind(types.NUMATOPOLOGIES, Numatopology, ("numatopo",), has_status=False)
