"""PodGroup: pods that are placed together or not at all."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge
from pydantic import Field

from pyroclast.api import types, wire
from pyroclast.api.enums import PodGroupPhase
from pyroclast.api.shared import AGE, Column, CustomKind, NetworkTopologySpec


class SubGroupPolicySpec(wire.WireModel):
    """A further grouping of some pods of the group."""

    name: wire.Name | None = None
    """Name of the policy."""
    network_topology: NetworkTopologySpec | None = None
    """The network topology limit for the pods of one subgroup."""
    sub_group_size: Annotated[int, Ge(1), wire.Extra({"format": "int32"})] = 1
    """Number of pods of each subgroup."""
    min_sub_groups: wire.Count = 0
    """How many subgroups must be placeable."""
    label_selector: wire.LabelSelector | None = None
    """Selects the pods that belong to subgroups."""
    match_label_keys: Annotated[list[str], wire.ATOMIC] | None = None
    """Pods with equal values of these labels are in one subgroup."""


class PodGroupSpec(wire.WireModel):
    """The requirements of a group."""

    min_member: wire.Count | None = None
    """How many pods must be placeable before any pod starts."""
    min_task_member: dict[str, wire.Int32] | None = None
    """How many pods of each task must be placeable."""
    queue: wire.SubdomainName = "default"
    """The queue to which the group is submitted."""
    priority_class_name: wire.Name | None = None
    """The PriorityClass of the group."""
    min_resources: wire.ResourceList | None = None
    """The resources that must be free in the queue before the group is admitted."""
    network_topology: NetworkTopologySpec | None = None
    """The network topology limit for the pods."""
    sub_group_policy: list[SubGroupPolicySpec] | None = None
    """Further groupings within the group."""


class PodGroupCondition(wire.WireModel):
    """One aspect of a group's state."""

    type: str | None = None
    """Unschedulable or Scheduled."""
    status: str | None = None
    """Whether the condition is true."""
    transition_id: Annotated[str | None, Field(alias="transitionID")] = None
    """The scheduling session that wrote the condition."""
    last_transition_time: wire.Time | None = None
    """When the condition was written."""
    reason: str | None = None
    """The reason of the condition, as one word."""
    message: str | None = None
    """The reason of the condition, as text."""


class PodGroupStatus(wire.WireModel):
    """The state of a group, written by the scheduler."""

    phase: PodGroupPhase | None = None
    """The phase."""
    conditions: list[PodGroupCondition] | None = None
    """Conditions of the group."""
    running: wire.Count | None = None
    """Number of running pods."""
    succeeded: wire.Count | None = None
    """Number of pods that succeeded."""
    failed: wire.Count | None = None
    """Number of pods that failed."""


class PodGroup(wire.ApiObject):
    """A PodGroup is a set of pods that are placed together or not at all."""

    spec: PodGroupSpec | None = None
    """The requirements of the group."""
    status: PodGroupStatus | None = None
    """The state of the group, written by the scheduler."""


KIND = CustomKind(
    types.POD_GROUPS,
    PodGroup,
    ("pg", "podgroup-v1beta1"),
    (
        Column("STATUS", "string", ".status.phase"),
        Column("minMember", "integer", ".spec.minMember"),
        Column("RUNNINGS", "integer", ".status.running"),
        AGE,
        Column("QUEUE", "string", ".spec.queue", priority=1),
    ),
    has_status=False,
)
