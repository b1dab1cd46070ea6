"""The records of storage besides claims: volumes, classes, and the volume drivers of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pyroclast.api.records.meta import ObjectRecord, Wire


class ClaimReference(Wire, frozen=True, kw_only=True):
    """The claim for which a volume is reserved; without a UID, any claim of that name."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class CsiVolumeSource(Wire, frozen=True, kw_only=True):
    driver: str = ""
    volume_handle: str = ""


class PersistentVolumeSpec(Wire, frozen=True, kw_only=True):
    """The properties of a volume, its driver, and its claim; `node_affinity` is unparsed."""

    capacity: Mapping[str, str | int] = {}
    access_modes: tuple[str, ...] = ()
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    claim_ref: ClaimReference | None = None
    node_affinity: Mapping[str, Any] | None = None
    csi: CsiVolumeSource | None = None


class PersistentVolumeStatus(Wire, frozen=True, kw_only=True):
    phase: str = ""


class PersistentVolume(ObjectRecord, frozen=True, kw_only=True):
    ESSENTIAL: ClassVar = ("spec",)

    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class StorageClass(ObjectRecord, frozen=True, kw_only=True):
    """A StorageClass: how, when and where volumes are created; `allowed_topologies` is unparsed."""

    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[Mapping[str, Any], ...] = ()


class CsiNodeDriver(Wire, frozen=True, kw_only=True):
    """A volume driver on a node; `count` in `allocatable` is the largest number of its volumes on the node."""

    name: str = ""
    allocatable: Mapping[str, Any] | None = None


class CsiNodeSpec(Wire, frozen=True, kw_only=True):
    drivers: tuple[CsiNodeDriver, ...] = ()


class CsiNode(ObjectRecord, frozen=True, kw_only=True):
    spec: CsiNodeSpec = CsiNodeSpec()


class CsiDriverSpec(Wire, frozen=True, kw_only=True):
    storage_capacity: bool = False


class CsiDriver(ObjectRecord, frozen=True, kw_only=True):
    spec: CsiDriverSpec = CsiDriverSpec()


class CsiStorageCapacity(ObjectRecord, frozen=True, kw_only=True):
    """The free capacity for volumes of a StorageClass on some nodes.

    No capacity is free when both `capacity` and `maximum_volume_size` are None.
    """

    storage_class_name: str = ""
    node_topology: Mapping[str, Any] | None = None
    capacity: str | int | None = None
    maximum_volume_size: str | int | None = None
