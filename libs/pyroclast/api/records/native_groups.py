"""The records of native PodGroups (`scheduling.k8s.io`), with the fields that the scheduler reads."""

from __future__ import annotations

from typing import ClassVar

from pyroclast.api.records.meta import Condition, ObjectRecord, Wire


class GangPolicy(Wire, frozen=True, kw_only=True):
    min_count: int = 1


class SchedulingPolicy(Wire, frozen=True, kw_only=True):
    gang: GangPolicy | None = None


class TopologyConstraint(Wire, frozen=True, kw_only=True):
    key: str = ""


class SchedulingConstraints(Wire, frozen=True, kw_only=True):
    topology: tuple[TopologyConstraint, ...] = ()


class WholeGroup(Wire, frozen=True, kw_only=True):
    """An option without settings."""


class DisruptionMode(Wire, frozen=True, kw_only=True):
    """How pods are evicted: one by one, or all of them together (`all`)."""

    all: WholeGroup | None = None


class PodGroupResourceClaim(Wire, frozen=True, kw_only=True):
    """A claim for devices that pods share if they name it in the same way: by name, or by the claim's template."""

    name: str = ""
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class WorkloadReference(Wire, frozen=True, kw_only=True):
    workload_name: str = ""


class NativePodGroupSpec(Wire, frozen=True, kw_only=True):
    """The requirements of the group. `priority` None means 0; an empty `preemption_policy` means the policy of the pods."""

    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    scheduling_constraints: SchedulingConstraints | None = None
    disruption_mode: DisruptionMode | None = None
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    parent_composite_pod_group_name: str = ""
    workload_ref: WorkloadReference | None = None
    resource_claims: tuple[PodGroupResourceClaim, ...] = ()


class NativeCondition(Condition, frozen=True, kw_only=True):
    observed_generation: int = 0


class NativePodGroupStatus(Wire, frozen=True, kw_only=True):
    conditions: tuple[NativeCondition, ...] = ()


class NativePodGroup(ObjectRecord, frozen=True, kw_only=True):
    ESSENTIAL: ClassVar = ("spec",)

    spec: NativePodGroupSpec = NativePodGroupSpec()
    status: NativePodGroupStatus = NativePodGroupStatus()


class CompositeGangPolicy(Wire, frozen=True, kw_only=True):
    """The child groups start together: at least `min_group_count` of the groups that name the composite as their parent,
    or none.
    """

    min_group_count: int = 1


class CompositeSchedulingPolicy(Wire, frozen=True, kw_only=True):
    gang: CompositeGangPolicy | None = None


class CompositePodGroupSpec(Wire, frozen=True, kw_only=True):
    """The common requirements of child groups. `priority` None means 0; an empty `preemption_policy` means the policy of the
    pods.
    """

    scheduling_policy: CompositeSchedulingPolicy = CompositeSchedulingPolicy()
    scheduling_constraints: SchedulingConstraints | None = None
    disruption_mode: DisruptionMode | None = None
    priority: int | None = None
    preemption_policy: str = ""
    parent_composite_pod_group_name: str = ""
    workload_ref: WorkloadReference | None = None


class CompositePodGroup(ObjectRecord, frozen=True, kw_only=True):
    """A native CompositePodGroup: a group of groups."""

    ESSENTIAL: ClassVar = ("spec",)

    spec: CompositePodGroupSpec = CompositePodGroupSpec()
    status: NativePodGroupStatus = NativePodGroupStatus()
