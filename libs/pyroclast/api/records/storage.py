"""The records of storage beside claims: volumes, classes, and what nodes and drivers of volumes can do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyroclast.api.records.meta import ObjectRecord, Wire

__all__ = [
    "ClaimReference",
    "CsiDriver",
    "CsiDriverSpec",
    "CsiNode",
    "CsiNodeDriver",
    "CsiNodeSpec",
    "CsiStorageCapacity",
    "CsiVolumeSource",
    "PersistentVolume",
    "PersistentVolumeSpec",
    "PersistentVolumeStatus",
    "StorageClass",
]


class ClaimReference(Wire, frozen=True, kw_only=True):
    """The claim that a volume is for; without a UID whichever has that name."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class CsiVolumeSource(Wire, frozen=True, kw_only=True):
    """The driver of a volume and what it calls it."""

    driver: str = ""
    volume_handle: str = ""


class PersistentVolumeSpec(Wire, frozen=True, kw_only=True):
    """What a volume offers, from where, and to whom; `node_affinity` as it came."""

    capacity: Mapping[str, str | int] = {}
    access_modes: tuple[str, ...] = ()
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    claim_ref: ClaimReference | None = None
    node_affinity: Mapping[str, Any] | None = None
    csi: CsiVolumeSource | None = None


class PersistentVolumeStatus(Wire, frozen=True, kw_only=True):
    """Pending, Available, Bound, Released or Failed."""

    phase: str = ""


class PersistentVolume(ObjectRecord, frozen=True, kw_only=True):
    """A volume."""

    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class StorageClass(ObjectRecord, frozen=True, kw_only=True):
    """How volumes are made, when, and where they can be; `allowed_topologies` as they came."""

    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[Mapping[str, Any], ...] = ()


class CsiNodeDriver(Wire, frozen=True, kw_only=True):
    """A driver on a node; `allocatable` tells by `count` how many of its volumes the node takes."""

    name: str = ""
    allocatable: Mapping[str, Any] | None = None


class CsiNodeSpec(Wire, frozen=True, kw_only=True):
    """The drivers on a node."""

    drivers: tuple[CsiNodeDriver, ...] = ()


class CsiNode(ObjectRecord, frozen=True, kw_only=True):
    """What the node of the same name can do with volumes."""

    spec: CsiNodeSpec = CsiNodeSpec()


class CsiDriverSpec(Wire, frozen=True, kw_only=True):
    """Whether the driver tells how much room there is."""

    storage_capacity: bool = False


class CsiDriver(ObjectRecord, frozen=True, kw_only=True):
    """A driver of volumes."""

    spec: CsiDriverSpec = CsiDriverSpec()


class CsiStorageCapacity(ObjectRecord, frozen=True, kw_only=True):
    """How much room there is for volumes of a class on some nodes; None of both: none."""

    storage_class_name: str = ""
    node_topology: Mapping[str, Any] | None = None
    capacity: str | int | None = None
    maximum_volume_size: str | int | None = None
