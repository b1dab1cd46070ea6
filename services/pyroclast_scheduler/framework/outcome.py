"""What comes out of a session, as values: what is to be bound and evicted, and what is to be written about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyroclast.api import records
from pyroclast_scheduler.model.dimensions import Amounts
from pyroclast_scheduler.model.tasks import TaskFacts

__all__ = ["Binds", "Commit", "Eviction", "Note", "Outcome", "Waiting"]


@dataclass(frozen=True, slots=True)
class Binds:
    """Pods of one job that are to be bound together: (pod UID, node name)."""

    job: str
    placed: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod that has to go, and why."""

    task: TaskFacts
    job: str
    reason: str


@dataclass(frozen=True, slots=True)
class Commit:
    """What one statement decided."""

    binds: tuple[Binds, ...] = ()
    evictions: tuple[Eviction, ...] = ()


@dataclass(frozen=True, slots=True)
class Note:
    """Something that users of a PodGroup should know: an event of type `kind`."""

    job: str
    kind: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a pod waits: its condition PodScheduled=False.

    `nominated`: the node that is being made free for it, empty if none. `members`: how many its gang has while those are too few,
    so that more may be on their way; None if they would do.
    """

    task: TaskFacts
    reason: str
    message: str
    nominated: str = ""
    members: int | None = None


@dataclass(slots=True)
class Outcome:
    """What a session leaves behind beside its commits.

    `statuses`: by PodGroup, the status that it should have and does not have yet. `bare`: PodGroups that are Pending and may
    not say so, since an absent phase reads like that. `incomplete`: PodGroups that hold places
    without being ready, with tasks that wait. `queues`: what each queue has allocated.
    """

    statuses: dict[str, records.PodGroupStatus] = field(default_factory=dict)
    bare: list[str] = field(default_factory=list)
    waiting: list[Waiting] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    incomplete: list[str] = field(default_factory=list)
    queues: Mapping[str, Amounts] = field(default_factory=dict)
    unready: Mapping[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
