"""The writes and Events that a decision asks for, as values that can be printed, compared, counted and replayed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from pyroclast.api.records import JobStatus


@dataclass(frozen=True, slots=True)
class Notice:
    """An Event: its type (Normal or Warning), its reason (one word) and its message."""

    type: str
    reason: str
    message: str


def normal(reason: str, message: str) -> Notice:
    """Return a Notice of type Normal."""
    return Notice("Normal", reason, message)


def warning(reason: str, message: str) -> Notice:
    """Return a Notice of type Warning: somebody may have to act."""
    return Notice("Warning", reason, message)


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of one pod: index `index` of task `task`.

    `node`: the node to which the controller binds the pod at its creation; empty when the scheduler binds the pod later.
    """

    task: str
    index: int
    node: str = ""


@dataclass(frozen=True, slots=True)
class Victim:
    """A pod to be deleted; a newer pod of the same name, with another UID, is not deleted."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class AnnotateJob:
    """Set annotations of the Job."""

    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class NameClaims:
    """Write the names of generated claims into the Job's spec. `names`: claim names by position in `spec.volumes`."""

    names: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class CreateClaims:
    """Create the claims of the volumes at these positions of `spec.volumes`."""

    positions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PreparePlugins:
    """Create or update the objects of the Job's plugins."""


@dataclass(frozen=True, slots=True)
class RemovePlugins:
    """Delete the objects of the Job's plugins."""


@dataclass(frozen=True, slots=True)
class CreateGroup:
    """Create the PodGroup."""

    manifest: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PatchGroup:
    """Update the PodGroup by a merge patch."""

    name: str
    patch: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AskSeats:
    """Publish the seats of the PodGroup anew.

    `slots`: the slots whose pods are to be created; None for all slots, after the PodGroup is admitted.
    """

    name: str
    generation: int
    slots: tuple[Slot, ...] | None = None


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """Delete the PodGroup with this UID; a newer PodGroup of the same name stays."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class CreatePods:
    """Create the pods of these slots in parallel.

    `elastic`: how many slots at the end the gang does not need. Their pods are created in turns with those of other Jobs.
    """

    slots: tuple[Slot, ...]
    elastic: int = 0


@dataclass(frozen=True, slots=True)
class MarkPods:
    """Mark pods that the controller is about to delete, so that the controller does not take their end for an eviction."""

    victims: tuple[Victim, ...]


@dataclass(frozen=True, slots=True)
class DeletePods:
    """Delete pods: one after the other if `in_order`, else in parallel.

    `gives_back`: the controller leaves the freed room to other jobs for a while. `notices`: the Events to record afterwards.
    """

    victims: tuple[Victim, ...]
    in_order: bool = False
    gives_back: bool = False
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Write the status of the Job at once, before the effects that follow."""

    status: JobStatus


Effect: TypeAlias = (
    AnnotateJob
    | AskSeats
    | NameClaims
    | CreateClaims
    | PreparePlugins
    | RemovePlugins
    | CreateGroup
    | PatchGroup
    | DeleteGroup
    | CreatePods
    | MarkPods
    | DeletePods
    | WriteStatus
)
