"""The records of the PodGroups that Kubernetes itself serves (`scheduling.k8s.io`), as far as the scheduler reads them."""

from __future__ import annotations

from pyroclast.api.records.meta import Condition, ObjectRecord, Wire

__all__ = [
    "CompositeGangPolicy",
    "CompositePodGroup",
    "CompositePodGroupSpec",
    "CompositeSchedulingPolicy",
    "DisruptionMode",
    "GangPolicy",
    "NativeCondition",
    "NativePodGroup",
    "NativePodGroupSpec",
    "NativePodGroupStatus",
    "PodGroupResourceClaim",
    "SchedulingConstraints",
    "SchedulingPolicy",
    "TopologyConstraint",
    "WholeGroup",
    "WorkloadReference",
]


class GangPolicy(Wire, frozen=True, kw_only=True):
    """All or nothing, with at least so many pods."""

    min_count: int = 1


class SchedulingPolicy(Wire, frozen=True, kw_only=True):
    """How the pods start; without `gang` each by itself."""

    gang: GangPolicy | None = None


class TopologyConstraint(Wire, frozen=True, kw_only=True):
    """All pods go to nodes that have the same value of the label `key`."""

    key: str = ""


class SchedulingConstraints(Wire, frozen=True, kw_only=True):
    """Where the pods may be."""

    topology: tuple[TopologyConstraint, ...] = ()


class WholeGroup(Wire, frozen=True, kw_only=True):
    """A choice without settings of its own."""


class DisruptionMode(Wire, frozen=True, kw_only=True):
    """Whether pods are evicted one by one, or `all` of them together."""

    all: WholeGroup | None = None


class PodGroupResourceClaim(Wire, frozen=True, kw_only=True):
    """A claim on devices that the pods share which name it in the same way: by name, or by the template that it is made from."""

    name: str = ""
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class WorkloadReference(Wire, frozen=True, kw_only=True):
    """The Workload that a group was made from; nobody checks that it exists."""

    workload_name: str = ""


class NativePodGroupSpec(Wire, frozen=True, kw_only=True):
    """What the group needs. `priority` None reads as 0, an empty `preemption_policy` as what the pods say."""

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
    """A condition, with the generation of the spec that it was found for."""

    observed_generation: int = 0


class NativePodGroupStatus(Wire, frozen=True, kw_only=True):
    """What a scheduler says of the group."""

    conditions: tuple[NativeCondition, ...] = ()


class NativePodGroup(ObjectRecord, frozen=True, kw_only=True):
    """A group of pods in Kubernetes' own API."""

    spec: NativePodGroupSpec = NativePodGroupSpec()
    status: NativePodGroupStatus = NativePodGroupStatus()


class CompositeGangPolicy(Wire, frozen=True, kw_only=True):
    """All or nothing, with at least so many of the groups that name the composite as their parent."""

    min_group_count: int = 1


class CompositeSchedulingPolicy(Wire, frozen=True, kw_only=True):
    """How the groups start; without `gang` each by itself."""

    gang: CompositeGangPolicy | None = None


class CompositePodGroupSpec(Wire, frozen=True, kw_only=True):
    """What the groups need together. `priority` None reads as 0, an empty `preemption_policy` as what the pods say."""

    scheduling_policy: CompositeSchedulingPolicy = CompositeSchedulingPolicy()
    scheduling_constraints: SchedulingConstraints | None = None
    disruption_mode: DisruptionMode | None = None
    priority: int | None = None
    preemption_policy: str = ""
    parent_composite_pod_group_name: str = ""
    workload_ref: WorkloadReference | None = None


class CompositePodGroup(ObjectRecord, frozen=True, kw_only=True):
    """A group of groups in Kubernetes' own API."""

    spec: CompositePodGroupSpec = CompositePodGroupSpec()
    status: NativePodGroupStatus = NativePodGroupStatus()
