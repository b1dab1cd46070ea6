"""Parts of a schema that several kinds share."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge
from pydantic import ConfigDict, StringConstraints

from pyroclast.api.enums import BusEvent, NetworkTopologyMode
from pyroclast.api.wire import Duration, Extra, Int32, Name, Time, WireModel

__all__ = ["Condition", "LifecyclePolicy", "NetworkTopologySpec", "ObjectReference", "OwnerReference", "TaskState"]

_CONDITION_TYPE = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)
_CONDITION_REASON = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
_ATOMIC_MAP = ConfigDict(json_schema_extra={"x-kubernetes-map-type": "atomic"})


class NetworkTopologySpec(WireModel):
    """How far apart in the network the members of a group may be placed."""

    mode: NetworkTopologyMode = NetworkTopologyMode.HARD
    """Whether placement must stay inside the allowed tier (hard) or merely should (soft)."""
    highest_tier_allowed: Annotated[int, Ge(0)] | None = None
    """The highest tier of HyperNodes that the group may span. Excludes highestTierName."""
    highest_tier_name: Name | None = None
    """The same limit by the name of a tier. Excludes highestTierAllowed."""


class LifecyclePolicy(WireModel):
    """What to do when something happens to a Job. Names either events or an exit code."""

    action: str | None = None
    """What to do: AbortJob, RestartJob, RestartTask, RestartPod, RestartPartition, TerminateJob, CompleteJob or ResumeJob."""
    event: BusEvent | None = None
    """The event on which to act; `*` stands for all."""
    events: list[BusEvent] | None = None
    """Further events on which to act."""
    exit_code: Int32 | None = None
    """The exit code of a pod's first container on which to act. Not 0."""
    timeout: Duration | None = None
    """How long to wait before acting, as a Go duration. PodPending needs one."""


class TaskState(WireModel):
    """The pods of a task."""

    phase: dict[str, Int32] | None = None
    """Number of pods by phase."""


class Condition(WireModel):
    """One aspect of an object's state."""

    type: Annotated[str, StringConstraints(max_length=316, pattern=_CONDITION_TYPE)]
    """What the condition is about."""
    status: Annotated[str, Extra({"enum": ["True", "False", "Unknown"]})]
    """Whether it holds."""
    observed_generation: Annotated[int, Ge(0), Extra({"format": "int64"})] | None = None
    """The generation of the object that it was made from."""
    last_transition_time: Time
    """When the status last changed."""
    reason: Annotated[str, StringConstraints(min_length=1, max_length=1024, pattern=_CONDITION_REASON)]
    """Why the status last changed, as one word."""
    message: Annotated[str, StringConstraints(max_length=32768)]
    """Why the status last changed, for people."""


class ObjectReference(WireModel):
    """A reference to an object."""

    model_config = _ATOMIC_MAP

    api_version: str | None = None
    """Group and version of the object."""
    field_path: str | None = None
    """The part of the object that is meant."""
    kind: str | None = None
    """Kind of the object."""
    name: str | None = None
    """Name of the object."""
    namespace: str | None = None
    """Namespace of the object."""
    resource_version: str | None = None
    """The version of the object that is meant."""
    uid: str | None = None
    """UID of the object."""


class OwnerReference(WireModel):
    """A reference to an object in the same namespace, or to a cluster-scoped one."""

    model_config = _ATOMIC_MAP

    api_version: str
    """Group and version of the object."""
    block_owner_deletion: bool | None = None
    """Whether the object may go only after what refers to it."""
    controller: bool | None = None
    """Whether the object manages what refers to it."""
    kind: str
    """Kind of the object."""
    name: str
    """Name of the object."""
    uid: str
    """UID of the object."""
