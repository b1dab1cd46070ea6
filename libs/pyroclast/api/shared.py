"""What several kinds share: parts of a schema, and how the API server serves a kind: short names, columns, subresources.

The serving is separate from the models, because a model only describes an object.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge
from pydantic import ConfigDict, StringConstraints

from pyroclast.api.enums import BusEvent, NetworkTopologyMode
from pyroclast.api.types import ResourceType
from pyroclast.api.wire import ApiObject, Duration, Extra, Int32, Name, Time, WireModel


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`. A column of priority 1 is only shown with `-o wide`."""

    name: str
    type: str
    path: str
    priority: int = 0


AGE = Column("AGE", "date", ".metadata.creationTimestamp")


@dataclass(frozen=True, slots=True)
class CustomKind:
    """One kind of Pyroclast. `has_status`: whether the status is a subresource."""

    resource: ResourceType
    model: type[ApiObject]
    short_names: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    has_status: bool = True


_CONDITION_TYPE = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)
_CONDITION_REASON = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
_ATOMIC_MAP = ConfigDict(json_schema_extra={"x-kubernetes-map-type": "atomic"})


class NetworkTopologySpec(WireModel):
    """The network topology limit of a group."""

    mode: NetworkTopologyMode = NetworkTopologyMode.HARD
    """Whether the group must stay inside the allowed tier (hard) or only should (soft)."""
    highest_tier_allowed: Annotated[int, Ge(0)] | None = None
    """The highest tier of HyperNodes that the group may span. Excludes highestTierName."""
    highest_tier_name: Name | None = None
    """The same limit as the name of a tier. Excludes highestTierAllowed."""


class LifecyclePolicy(WireModel):
    """An action for an event of a Job. A policy names either events or an exit code."""

    action: str | None = None
    """The action: AbortJob, RestartJob, RestartTask, RestartPod, RestartPartition, TerminateJob, CompleteJob or ResumeJob."""
    event: BusEvent | None = None
    """The event that triggers the action; `*` means all events."""
    events: list[BusEvent] | None = None
    """Further events that trigger the action."""
    exit_code: Int32 | None = None
    """The exit code of a pod's first container that triggers the action; must not be 0."""
    timeout: Duration | None = None
    """The delay before the action, as a Go duration. PodPending needs a delay."""


class TaskState(WireModel):
    """The pods of a task."""

    phase: dict[str, Int32] | None = None
    """Number of pods by phase."""


class Condition(WireModel):
    """One aspect of an object's state."""

    type: Annotated[str, StringConstraints(max_length=316, pattern=_CONDITION_TYPE)]
    """The type of the condition."""
    status: Annotated[str, Extra({"enum": ["True", "False", "Unknown"]})]
    """Whether the condition is true."""
    observed_generation: Annotated[int, Ge(0), Extra({"format": "int64"})] | None = None
    """The generation of the object to which the condition applies."""
    last_transition_time: Time
    """When the status last changed."""
    reason: Annotated[str, StringConstraints(min_length=1, max_length=1024, pattern=_CONDITION_REASON)]
    """Why the status last changed, as one word."""
    message: Annotated[str, StringConstraints(max_length=32768)]
    """Why the status last changed, as text."""


class ObjectReference(WireModel):
    """A reference to an object."""

    model_config = _ATOMIC_MAP

    api_version: str | None = None
    """Group and version of the object."""
    field_path: str | None = None
    """The part of the object to which the reference refers."""
    kind: str | None = None
    """Kind of the object."""
    name: str | None = None
    """Name of the object."""
    namespace: str | None = None
    """Namespace of the object."""
    resource_version: str | None = None
    """The version of the object to which the reference refers."""
    uid: str | None = None
    """UID of the object."""


class OwnerReference(WireModel):
    """A reference to an object in the same namespace, or to a cluster-scoped object."""

    model_config = _ATOMIC_MAP

    api_version: str
    """Group and version of the object."""
    block_owner_deletion: bool | None = None
    """Whether the owner can only be deleted after its dependent."""
    controller: bool | None = None
    """Whether the owner manages its dependent."""
    kind: str
    """Kind of the object."""
    name: str
    """Name of the object."""
    uid: str
    """UID of the object."""
