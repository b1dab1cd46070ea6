"""A group of pods that start together: what the scheduler knows of it, whichever API described it.

Readers make it from the objects of their API, see `pyroclast_scheduler.cache.group_readers`. Whoever reads a group here cannot
tell which API it came from, and must not ask.
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

__all__ = ["Group", "GroupClaim", "GroupCondition", "GroupSpec", "GroupStatus", "Hold"]

GroupStatus: TypeAlias = records.PodGroupStatus
"""Phase, counts and conditions of a group. An API without phases has them in the scheduler's memory alone."""

GroupCondition: TypeAlias = records.PodGroupCondition


class Hold(msgspec.Struct, frozen=True):
    """Why nothing of a group may be placed, whatever room there is.

    `is_error`: its objects contradict each other. `is_layout`: they cannot belong together as they say.
    """

    reason: PendingReason
    text: str
    is_error: bool = False
    is_layout: bool = False


class GroupSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a group needs.

    Attributes:
        min_member: how many members must have, or have had, a place for it to start; those that succeeded count.
        min_task_member: the same by role.
        queue: its queue; empty: the default one.
        priority: its priority; None: that of the class `priority_class_name`.
        min_resources: what its namespace and queue must have room for before it is let in, as written in its object.
        member_resources: the same as the sum of its members' requests, which their namespace has counted already.
        hold: why none of it may be placed now; None if it may.
        evicts_whole: either all of its pods are evicted or none.
        is_protected: none of its pods is evicted, whatever they say themselves.
        never_preempts: it takes no place from others.
        claims: claims on devices that are the group's own, not those of its pods.
        topology_key: all of it goes to nodes with one value of this label; empty: anywhere.
        tree: itself as the part that all others belong to; then the two above are said there. None: it has no parts.
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
    """One group.

    `kind`: what its object is served as, for events and writes; `key`: by which tasks and jobs name it. `keeps_phase`: its object
    has a phase and counts, and may be annotated; of others the status is in memory alone, and `said` are the conditions that
    the object has. `warning`: what of its pods is passed over, empty if nothing.
    """

    kind: ResourceType
    key: str
    metadata: records.Meta
    spec: GroupSpec = GroupSpec()
    status: GroupStatus = GroupStatus()
    keeps_phase: bool = True
    warning: str = ""
    said: tuple[records.NativeCondition, ...] = ()
