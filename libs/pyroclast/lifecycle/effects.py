"""What is to be done about a Job, as values: they can be printed, compared, counted and replayed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from pyroclast.api.records import JobStatus

__all__ = [
    "AnnotateJob",
    "AskSeats",
    "CreateClaims",
    "CreateGroup",
    "CreatePods",
    "DeleteGroup",
    "DeletePods",
    "Effect",
    "MarkPods",
    "NameClaims",
    "PatchGroup",
    "PreparePlugins",
    "RemovePlugins",
    "Slot",
    "Victim",
    "WriteStatus",
]


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for a pod: the `index`-th of a task. `node`: where it is created at once; empty: the scheduler binds it later."""

    task: str
    index: int
    node: str = ""


@dataclass(frozen=True, slots=True)
class Victim:
    """A pod to be deleted, that very one."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class AnnotateJob:
    """Set annotations of the Job."""

    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class NameClaims:
    """Write the names of generated claims into the Job's spec: position in `spec.volumes` to name."""

    names: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class CreateClaims:
    """Create the claims of the volumes at these positions of `spec.volumes`."""

    positions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PreparePlugins:
    """Make the objects of the Job's plugins exist and be current."""


@dataclass(frozen=True, slots=True)
class RemovePlugins:
    """Delete the objects of the Job's plugins."""


@dataclass(frozen=True, slots=True)
class CreateGroup:
    """Create the PodGroup."""

    manifest: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PatchGroup:
    """Bring the PodGroup up to date by a merge patch."""

    name: str
    patch: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AskSeats:
    """Publish the seats of the PodGroup anew. `slots`: those for which pods are to be made; None: all, when it is let in."""

    name: str
    generation: int
    slots: tuple[Slot, ...] | None = None


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """Give up the PodGroup, that very one."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class CreatePods:
    """Create the pods of these slots, at the same time."""

    slots: tuple[Slot, ...]


@dataclass(frozen=True, slots=True)
class MarkPods:
    """Mark pods as about to be deleted by the controller, so that their end is not taken for an eviction."""

    victims: tuple[Victim, ...]


@dataclass(frozen=True, slots=True)
class DeletePods:
    """Delete pods; `in_order` one after the other, else at the same time.

    `gives_back`: their places are left to others for a while.
    """

    victims: tuple[Victim, ...]
    in_order: bool = False
    gives_back: bool = False


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
