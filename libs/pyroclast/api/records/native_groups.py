"""The records of native PodGroups (`scheduling.k8s.io`), with the fields that the scheduler reads."""

from __future__ import annotations

from typing import ClassVar

from pyroclast.api.records.meta import Condition, ObjectRecord, Wire


class GangPolicy(Wire, frozen=True, kw_only=True):
    """The pods start together: at least `min_count` or none."""

    min_count: int = 1


class SchedulingPolicy(Wire, frozen=True, kw_only=True):
    """How the pods start; without `gang`, each pod starts independently."""

    gang: GangPolicy | None = None


class TopologyConstraint(Wire, frozen=True, kw_only=True):
    """All pods run on nodes that have the same value of the label `key`."""

    key: str = ""


class SchedulingConstraints(Wire, frozen=True, kw_only=True):
    """Constraints on the nodes of the pods."""

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
    """The Workload from which a group was created; the Workload need not exist."""

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
    """A condition, with the generation of the spec to which it applies."""

    observed_generation: int = 0


class NativePodGroupStatus(Wire, frozen=True, kw_only=True):
    """The state of the group, written by a scheduler."""

    conditions: tuple[NativeCondition, ...] = ()


class NativePodGroup(ObjectRecord, frozen=True, kw_only=True):
    """A native PodGroup of Kubernetes."""

    ESSENTIAL: ClassVar = ("spec",)

    spec: NativePodGroupSpec = NativePodGroupSpec()
    status: NativePodGroupStatus = NativePodGroupStatus()


class CompositeGangPolicy(Wire, frozen=True, kw_only=True):
    """The child groups start together: at least `min_group_count` of the groups that name the composite as their parent,
    or none.
    """

    min_group_count: int = 1


class CompositeSchedulingPolicy(Wire, frozen=True, kw_only=True):
    """How the child groups start; without `gang`, each group starts independently."""

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
