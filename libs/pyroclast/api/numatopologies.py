"""Numatopology: the inside of a node, as its exporter sees it. The object bears the name of the node."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge
from pydantic import Field

from pyroclast.api import types
from pyroclast.api.kinds import CustomKind
from pyroclast.api.wire import ApiObject, WireModel

__all__ = [
    "KIND",
    "ContainerAllocation",
    "CpuInfo",
    "Numatopology",
    "NumatopologySpec",
    "PodAllocation",
    "ResourceInfo",
]

_Index = Annotated[int, Ge(0)]


class ResourceInfo(WireModel):
    """A resource of the node."""

    allocatable: str | None = None
    """The set of CPUs that may be given away, such as `0,2-4`."""
    capacity: int | None = None
    """How much there is in all."""


class CpuInfo(WireModel):
    """Where a CPU sits."""

    numa: _Index | None = None
    """Its NUMA node."""
    socket: _Index | None = None
    """Its socket."""
    core: _Index | None = None
    """Its core."""


class ContainerAllocation(WireModel):
    """What a container holds."""

    name: str | None = None
    """Name of the container."""
    allocations: dict[str, str] | None = None
    """Resources by name: a set of CPUs for cpu, a quantity for others."""


class PodAllocation(WireModel):
    """What a pod holds."""

    uid: str | None = None
    """UID of the pod."""
    name: str | None = None
    """Name of the pod."""
    namespace: str | None = None
    """Namespace of the pod."""
    container_allocations: list[ContainerAllocation] | None = None
    """What its containers hold."""


class NumatopologySpec(WireModel):
    """The inside of a node."""

    policies: dict[str, str] | None = None
    """Policies of the kubelet: CPUManagerPolicy and TopologyManagerPolicy."""
    res_reserved: dict[str, str] | None = None
    """Quantities that are reserved for the node itself."""
    numa_resources: Annotated[dict[str, ResourceInfo] | None, Field(alias="numares")] = None
    """Resources by name."""
    cpu_detail: dict[str, CpuInfo] | None = None
    """CPUs by number."""
    pod_allocations: list[PodAllocation] | None = None
    """What the pods on the node hold."""


class Numatopology(ApiObject):
    """A Numatopology shows the inside of the node of the same name."""

    spec: NumatopologySpec | None = None
    """The inside of the node."""


KIND = CustomKind(types.NUMATOPOLOGIES, Numatopology, ("numatopo",), has_status=False)
