"""A group of pods that start together, perhaps as a tree of parts, independent of the API that describes the group.

The modules of `pyroclast_scheduler.cache.group_readers` make groups from the objects of each API. Code that uses a `Group` must
not depend on the API that the group comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

import msgspec

from pyroclast.api import records
from pyroclast.api.types import ResourceType
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast_scheduler.model.dimensions import Amounts


class GroupClaim(NamedTuple):
    """A claim of a group: the name by which pods refer to the claim, and the name of the claim or of its template."""

    name: str
    claim: str
    template: str


class GroupPart(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a group. A leaf part has pods; every other part has further parts, its children.

    Attributes:
        name: the name that tasks and explanations use for the part; unique in the group.
        minimum: how many pods of a leaf part must be allocated, or how many children must be ready, before the part
            can start.
        parts: the children of this part; empty for a leaf part.
        topology_key: the key of a node label. All nodes of the part must have the same value of this label.
            These nodes must also have one value of the label of the parent part.
        evicts_whole: whether the pods of the part are evicted all together or not at all.
        claims: the ResourceClaims that belong to the part and not to its pods.
        consumer: the object for which `claims` are reserved, as a reference in the status of a claim.
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
        queue: the name of the queue; empty for the default queue.
        priority_class_name: the name of the PriorityClass, which is used if `priority` is None.
        priority: the priority; None if that of the PriorityClass is used.
        min_resources: the amounts for which namespace and queue must have room before the group is enqueued, as in its object.
        member_resources: the sum of the members' requests, used without `min_resources`; the ResourceQuota counts it already.
        hold: the reason for which no pod of the group may be placed now; None if there is none.
        evicts_whole: whether either all pods of the group are evicted or none.
        is_protected: whether no pod of the group is evicted, whatever the pods declare.
        never_preempts: whether no pods of other groups are evicted for this group.
        claims: the ResourceClaims that belong to the group and not to its pods.
        topology_key: a label; all nodes of the group have the same value of it. Empty: no such limit.
        tree: the root of the tree of parts, which then has `claims` and `topology_key`; None if the group has no parts.
    """

    min_member: int = 0
    min_task_member: Mapping[str, int] = {}
    queue: str = ""
    priority_class_name: str = ""
    priority: int | None = None
    min_resources: Mapping[str, str | int] | None = None
    member_resources: Amounts | None = None
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
    """One group of pods.

    Attributes:
        kind: the resource type of the object that describes the group, for Events and writes.
        key: the name by which tasks and jobs refer to the group.
        keeps_phase: whether the object has a phase and counts and may be annotated; otherwise the status exists in memory only.
        warning: describes the pods of the group that are ignored; empty if none is.
        said: the conditions in the object, if the object has no phase.
    """

    kind: ResourceType
    key: str
    metadata: records.Meta
    spec: GroupSpec = GroupSpec()
    status: GroupStatus = GroupStatus()
    keeps_phase: bool = True
    warning: str = ""
    said: tuple[records.NativeCondition, ...] = ()
