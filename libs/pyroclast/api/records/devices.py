"""The records of dynamic resource allocation: claims on devices, classes of them, and the devices that drivers offer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pyroclast.api.records.meta import Condition, ObjectRecord, Wire

__all__ = [
    "AllocatedDevice",
    "Allocation",
    "AllocationDevices",
    "ClaimConsumer",
    "Device",
    "DeviceClass",
    "DeviceClassSpec",
    "DevicePool",
    "DeviceRequest",
    "DeviceRequests",
    "DeviceSubRequest",
    "DeviceWish",
    "ExactDeviceRequest",
    "ResourceClaim",
    "ResourceClaimSpec",
    "ResourceClaimStatus",
    "ResourceSlice",
    "ResourceSliceSpec",
]


class DeviceWish(Wire, frozen=True, kw_only=True):
    """Devices of one class; selectors, tolerations and capacity as they came."""

    device_class_name: str = ""
    selectors: tuple[Mapping[str, Any], ...] = ()
    allocation_mode: str = "ExactCount"
    count: int = 1
    tolerations: tuple[Mapping[str, Any], ...] = ()
    capacity: Mapping[str, Any] | None = None

    @property
    def is_for_admin(self) -> bool:
        """Whether devices that others use do too, as nothing is taken from them."""
        return False


class ExactDeviceRequest(DeviceWish, frozen=True, kw_only=True):
    """The one wish of a request."""

    admin_access: bool = False

    @property
    def is_for_admin(self) -> bool:
        """As it says."""
        return self.admin_access


class DeviceSubRequest(DeviceWish, frozen=True, kw_only=True):
    """One of several wishes, of which the first that can be met counts."""

    name: str = ""


class DeviceRequest(Wire, frozen=True, kw_only=True):
    """Some devices, or the first of several wishes that can be met."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceRequests(Wire, frozen=True, kw_only=True):
    """All that a claim asks for; constraints and configuration as they came."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[Mapping[str, Any], ...] = ()
    config: tuple[Mapping[str, Any], ...] = ()


class ResourceClaimSpec(Wire, frozen=True, kw_only=True):
    """What a claim asks for."""

    devices: DeviceRequests = DeviceRequests()


class AllocatedDevice(Wire, frozen=True, kw_only=True):
    """A device that a claim has."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool = False
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()


class AllocationDevices(Wire, frozen=True, kw_only=True):
    """The devices that a claim has."""

    results: tuple[AllocatedDevice, ...] = ()
    config: tuple[Mapping[str, Any], ...] = ()


class Allocation(Wire, frozen=True, kw_only=True):
    """What a claim has got, and on which nodes it can be used; `node_selector` as it came."""

    devices: AllocationDevices = AllocationDevices()
    node_selector: Mapping[str, Any] | None = None


class ClaimConsumer(Wire, frozen=True, kw_only=True):
    """Who may use the claim."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class DeviceStatus(Wire, frozen=True, kw_only=True):
    """What the driver says of a device that a claim has."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    conditions: tuple[Condition, ...] = ()


class ResourceClaimStatus(Wire, frozen=True, kw_only=True):
    """What the claim has got, and for whom."""

    allocation: Allocation | None = None
    devices: tuple[DeviceStatus, ...] = ()
    reserved_for: tuple[ClaimConsumer, ...] = ()


class ResourceClaim(ObjectRecord, frozen=True, kw_only=True):
    """A claim on devices."""

    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class DeviceClassSpec(Wire, frozen=True, kw_only=True):
    """Which devices belong to the class; selectors and configuration as they came."""

    selectors: tuple[Mapping[str, Any], ...] = ()
    config: tuple[Mapping[str, Any], ...] = ()


class DeviceClass(ObjectRecord, frozen=True, kw_only=True):
    """A class of devices."""

    spec: DeviceClassSpec = DeviceClassSpec()


class DevicePool(Wire, frozen=True, kw_only=True):
    """The pool that a slice is part of: only slices of its highest generation count, and only once there are all of them."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 1


class Device(Wire, frozen=True, kw_only=True):
    """A device; attributes, capacity, taints and what it shares with others as they came."""

    name: str = ""
    attributes: Mapping[str, Mapping[str, Any]] = {}
    capacity: Mapping[str, Mapping[str, Any]] = {}
    taints: tuple[Mapping[str, Any], ...] = ()
    consumes_counters: tuple[Mapping[str, Any], ...] = ()
    node_name: str = ""
    node_selector: Mapping[str, Any] | None = None
    all_nodes: bool = False
    allow_multiple_allocations: bool = False
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()


class ResourceSliceSpec(Wire, frozen=True, kw_only=True):
    """Devices of one driver on one node, some nodes or all of them."""

    driver: str = ""
    pool: DevicePool = DevicePool()
    node_name: str = ""
    node_selector: Mapping[str, Any] | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[Mapping[str, Any], ...] = msgspec.field(default=())


class ResourceSlice(ObjectRecord, frozen=True, kw_only=True):
    """Devices that a driver offers."""

    spec: ResourceSliceSpec = ResourceSliceSpec()
