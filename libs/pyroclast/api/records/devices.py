"""The records of dynamic resource allocation: claims for devices, device classes, and the devices that drivers offer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from pyroclast.api.records.meta import Condition, ObjectRecord, Wire


class DeviceWish(Wire, frozen=True, kw_only=True):
    """The class and the number of requested devices; selectors, tolerations and capacity are unparsed."""

    device_class_name: str = ""
    selectors: tuple[Mapping[str, Any], ...] = ()
    allocation_mode: str = "ExactCount"
    count: int = 1
    tolerations: tuple[Mapping[str, Any], ...] = ()
    capacity: Mapping[str, Any] | None = None

    @property
    def is_for_admin(self) -> bool:
        """Whether administrative access is requested, for which devices in use are allowed too."""
        return False


class ExactDeviceRequest(DeviceWish, frozen=True, kw_only=True):
    admin_access: bool = False

    @property
    def is_for_admin(self) -> bool:
        """Whether administrative access is requested."""
        return self.admin_access


class DeviceSubRequest(DeviceWish, frozen=True, kw_only=True):
    """One alternative of a request; the first alternative that can be satisfied is used."""

    name: str = ""


class DeviceRequest(Wire, frozen=True, kw_only=True):
    """A request for devices: `exactly` these devices, or the first of several alternatives that can be satisfied."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceRequests(Wire, frozen=True, kw_only=True):
    """All requests of a claim; constraints and configuration are unparsed."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[Mapping[str, Any], ...] = ()
    config: tuple[Mapping[str, Any], ...] = ()


class ResourceClaimSpec(Wire, frozen=True, kw_only=True):
    devices: DeviceRequests = DeviceRequests()


class AllocatedDevice(Wire, frozen=True, kw_only=True):
    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool = False
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()


class AllocationDevices(Wire, frozen=True, kw_only=True):
    results: tuple[AllocatedDevice, ...] = ()
    config: tuple[Mapping[str, Any], ...] = ()


class Allocation(Wire, frozen=True, kw_only=True):
    """The allocation of a claim, and the nodes on which it can be used; `node_selector` is unparsed."""

    devices: AllocationDevices = AllocationDevices()
    node_selector: Mapping[str, Any] | None = None


class ClaimConsumer(Wire, frozen=True, kw_only=True):
    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class DeviceStatus(Wire, frozen=True, kw_only=True):
    driver: str = ""
    pool: str = ""
    device: str = ""
    conditions: tuple[Condition, ...] = ()


class ResourceClaimStatus(Wire, frozen=True, kw_only=True):
    allocation: Allocation | None = None
    devices: tuple[DeviceStatus, ...] = ()
    reserved_for: tuple[ClaimConsumer, ...] = ()


class ResourceClaim(ObjectRecord, frozen=True, kw_only=True):
    ESSENTIAL: ClassVar = ("spec", "status")

    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class DeviceClassSpec(Wire, frozen=True, kw_only=True):
    """The devices of a class; selectors and configuration are unparsed."""

    selectors: tuple[Mapping[str, Any], ...] = ()
    config: tuple[Mapping[str, Any], ...] = ()
    extended_resource_name: str = ""


class DeviceTaintSelector(Wire, frozen=True, kw_only=True):
    """The devices that a rule taints: those for which each field that is not empty agrees."""

    driver: str = ""
    pool: str = ""
    device: str = ""


class DeviceTaintRuleSpec(Wire, frozen=True, kw_only=True):
    """A taint and its devices: none without a selector, all with an empty one. The taint is unparsed."""

    device_selector: DeviceTaintSelector | None = None
    taint: Mapping[str, Any] = {}


class DeviceTaintRule(ObjectRecord, frozen=True, kw_only=True):
    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()


class DeviceClass(ObjectRecord, frozen=True, kw_only=True):
    spec: DeviceClassSpec = DeviceClassSpec()


class DevicePool(Wire, frozen=True, kw_only=True):
    """The pool of a slice. Only slices of the pool's highest generation are used, and only when all of them exist."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 1


class Device(Wire, frozen=True, kw_only=True):
    """A device; attributes, capacity, taints and shared counters are unparsed."""

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
    driver: str = ""
    pool: DevicePool = DevicePool()
    node_name: str = ""
    node_selector: Mapping[str, Any] | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[Mapping[str, Any], ...] = msgspec.field(default=())


class ResourceSlice(ObjectRecord, frozen=True, kw_only=True):
    spec: ResourceSliceSpec = ResourceSliceSpec()
