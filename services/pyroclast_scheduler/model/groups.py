"""A group of pods that start together, independent of the API that describes the group.

The modules of `pyroclast_scheduler.cache.group_readers` make groups from the objects of each API. Code that uses a `Group` must
not depend on the API that the group comes from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from pyroclast.api import records
from pyroclast.api.types import ResourceType
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast_scheduler.model.dimensions import Amounts
from pyroclast_scheduler.model.group_tree import GroupClaim, GroupPart

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
