"""A group of pods that start together, perhaps as a tree of parts, independent of the API that describes the group. Pure.

A PodGroup of Volcano describes its group completely. The API of Kubernetes leaves the queue and the validity to the pods, so the
scheduler reads those groups with their pods; what the object alone says is read here. Code that uses a `Group` must not depend on
the API that the group comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

import msgspec

from pyroclast.api import keys, records
from pyroclast.api.enums import NativeConditionType
from pyroclast.api.pod_groups_on_pods import group_of
from pyroclast.api.types import POD_GROUPS, PODS, ResourceType
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast.resources.go_flags import parse_bool


class GroupClaim(NamedTuple):
    """A claim of a group: the name by which pods refer to the claim, and the name of the claim or of its template."""

    name: str
    claim: str
    template: str


class GroupPart(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a group. A leaf part has pods; every other part has further parts, its children.

    `minimum`: how many pods of a leaf part must be allocated, or how many children must be ready, before the part can start.
    `topology_key`: a label that has one value on all nodes of the part; they also have one value of the label of the parent
    part. `evicts_whole`: whether the pods of the part are evicted all together or not at all. `claims`: the ResourceClaims that
    belong to the part and not to its pods, reserved for `consumer`.
    """

    name: str
    minimum: int = 1
    parts: tuple[GroupPart, ...] = ()
    topology_key: str = ""
    evicts_whole: bool = False
    claims: tuple[GroupClaim, ...] = ()
    consumer: Mapping[str, str] = {}

    def paths(self, above: tuple[GroupPart, ...] = ()) -> Iterator[tuple[GroupPart, ...]]:
        """Yield for each leaf part the path from this part down to the leaf part."""
        path = (*above, self)
        if not self.parts:
            yield path
        for part in self.parts:
            yield from part.paths(path)

    def is_ready(self, test: Callable[[str], bool]) -> bool:
        """Whether enough children are ready. For a leaf part, `test` is called with the name of the part, and decides."""
        if not self.parts:
            return test(self.name)
        return sum(part.is_ready(test) for part in self.parts) >= self.minimum

    def cheapest(self, cost: Callable[[GroupPart], int]) -> list[GroupPart]:
        """Return the leaf parts that satisfy all minimums at the lowest total `cost`."""
        if not self.parts:
            return [self]
        found = sorted((part.cheapest(cost) for part in self.parts), key=lambda each: sum(map(cost, each)))
        return [part for each in found[: self.minimum] for part in each]


GroupStatus: TypeAlias = records.PodGroupStatus
"""Phase, counts and conditions of a group. If the API has no phases, they exist only in the memory of the scheduler."""

GroupCondition: TypeAlias = records.PodGroupCondition


class Hold(msgspec.Struct, frozen=True):
    """The reason for which no pod of a group may be placed, even if there is enough room.

    `is_error`: the objects of the group contradict each other. `is_layout`: the declared structure of the group is invalid.
    """

    reason: PendingReason
    text: str
    is_error: bool = False
    is_layout: bool = False


class GroupSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The requirements of a group.

    Attributes:
        min_member: how many members must be allocated before the group can start; succeeded members count.
        min_task_member: the same minimum by role.
        priority: the priority; None if that of the PriorityClass is used.
        min_resources: the amounts for which namespace and queue must have room before the group is enqueued, as in its object.
        member_resources: the sum of the members' requests, used without `min_resources`; the ResourceQuota counts it already.
        hold: the reason for which no pod of the group may be placed now; None if there is none.
        evicts_whole: whether either all pods of the group are evicted or none.
        is_protected: whether no pod of the group is evicted, whatever the pods declare.
        never_preempts: whether no pods of other groups are evicted for this group.
        tree: the root of the tree of parts, which then has `claims` and `topology_key`; None if the group has no parts.
    """

    min_member: int = 0
    min_task_member: Mapping[str, int] = {}
    queue: str = ""
    priority_class_name: str = ""
    priority: int | None = None
    min_resources: Mapping[str, str | int] | None = None
    member_resources: Mapping[str, int] | None = None
    network_topology: records.NetworkTopology | None = None
    sub_group_policy: tuple[records.SubGroupPolicy, ...] = ()
    hold: Hold | None = None
    evicts_whole: bool = False
    is_protected: bool = False
    never_preempts: bool = False
    topology_key: str = ""
    claims: tuple[GroupClaim, ...] = ()
    tree: GroupPart | None = None


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """One group of pods, described by an object of `kind`. Tasks and jobs refer to the group by `key`.

    `keeps_phase`: whether the object has a phase and counts and may be annotated; otherwise the status exists in memory only. The
    pod of a Job without a PodGroup has conditions in place of the annotations, and its phase exists in memory only.
    `warning`: describes the pods of the group that are ignored. `said`: the conditions in an object without a phase.
    """

    kind: ResourceType
    key: str
    metadata: records.Meta
    spec: GroupSpec = GroupSpec()
    status: GroupStatus = GroupStatus()
    keeps_phase: bool = True
    warning: str = ""
    said: tuple[records.NativeCondition, ...] = ()

    @property
    def is_on_pod(self) -> bool:
        """Whether the only pod of the group describes the group, as the Job has no PodGroup."""
        return self.kind is PODS


def pod_group(pod: records.Pod, key: str) -> Group | None:
    """Return the group that a pod of a Job without a PodGroup describes; None for another pod, and when the pod has ended."""
    record = group_of(pod)
    return None if record is None else msgspec.structs.replace(volcano_group(record), kind=PODS, key=key)


def volcano_group(record: records.PodGroup) -> Group:
    """Return the group that a PodGroup of `scheduling.volcano.sh` describes completely."""
    spec = GroupSpec(**{name: getattr(record.spec, name) for name in records.PodGroupSpec.__struct_fields__})
    return Group(kind=POD_GROUPS, key=str(record.key), metadata=record.metadata, spec=spec, status=record.status)


def volcano_record(group: Group) -> records.PodGroup:
    """Return the PodGroup that describes `group`, with the status that is being written."""
    spec = records.PodGroupSpec(**{name: getattr(group.spec, name) for name in records.PodGroupSpec.__struct_fields__})
    return records.PodGroup(metadata=group.metadata, spec=spec, status=group.status)


def named(meta: records.Meta) -> str:
    """Return the queue that the label or else the annotation of an object names; empty if neither does."""
    return meta.labels.get(keys.SCHEDULING_QUEUE_NAME) or meta.annotations.get(keys.SCHEDULING_QUEUE_NAME, "")


def has_started(record: records.NativePodGroup | records.CompositePodGroup) -> bool:
    """Whether the conditions of the object record that its minimum was placed."""
    types = {NativeConditionType.INITIALLY_SCHEDULED, NativeConditionType.COMPOSITE_SCHEDULED}
    return any(each.type in types and each.status == "True" for each in record.status.conditions)


def claims_of(spec: records.NativePodGroupSpec) -> tuple[GroupClaim, ...]:
    """Return the ResourceClaims of the group."""
    listed = spec.resource_claims
    return tuple(GroupClaim(each.name, each.resource_claim_name, each.resource_claim_template_name) for each in listed)


def goes_whole(spec: records.NativePodGroupSpec | records.CompositePodGroupSpec) -> bool:
    """Whether the pods of the group are evicted all together or not at all."""
    return spec.disruption_mode is not None and spec.disruption_mode.all is not None


def topology_key(spec: records.NativePodGroupSpec | records.CompositePodGroupSpec) -> str:
    """Return the label whose value must be the same for all nodes of the group; empty if there is no such limit."""
    constraints = () if spec.scheduling_constraints is None else spec.scheduling_constraints.topology
    return next((each.key for each in constraints), "")


def is_protected(meta: records.Meta) -> bool:
    """Whether the annotation of the group protects its pods from eviction."""
    return not parse_bool(meta.annotations.get(keys.PREEMPTABLE, "true"))
