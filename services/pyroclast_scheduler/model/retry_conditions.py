"""What would change it that a session could do nothing for a job: triggers, by which a change leads to the jobs it concerns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.shapes import Shape

__all__ = [
    "AnyChange",
    "AnyRoom",
    "ClaimRelease",
    "DeviceRelease",
    "Eviction",
    "Labelled",
    "Neighbours",
    "ObjectChange",
    "Pause",
    "QueueChange",
    "QueueUse",
    "Room",
    "Trigger",
    "UnschedulableJob",
]


@dataclass(frozen=True, slots=True)
class AnyChange:
    """Anything at all changes."""


@dataclass(frozen=True, slots=True)
class Room:
    """Some node may hold more than before, and all together hold so many more `pods` of a shape."""

    shape: Shape
    pods: int = 1


@dataclass(frozen=True, slots=True)
class AnyRoom:
    """Some node may hold more than before, whatever it is."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """Other pods than before may be made to go for one of these shapes, for a job of `queue`; `only_own`: of that queue."""

    queue: str
    shapes: frozenset[Shape]
    only_own: bool


@dataclass(frozen=True, slots=True)
class Labelled:
    """A pod with this value of a label comes to a node, leaves it, or changes there."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class Neighbours:
    """A pod that keeps away from others does so, or nodes change in more than their room."""


@dataclass(frozen=True, slots=True)
class ClaimRelease:
    """A pod with claims, on volumes or on devices, leaves a node."""


@dataclass(frozen=True, slots=True)
class DeviceRelease:
    """A claim gives its devices back."""


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """An object that a plugin watches comes, changes, or goes.

    `record`: the type that it is read as. `key`: namespace/name; an empty one: any object of the kind.
    """

    record: type[Any]
    key: str = ""


@dataclass(frozen=True, slots=True)
class QueueChange:
    """A queue, or one above it, comes, goes, or may have more."""

    name: str


@dataclass(frozen=True, slots=True)
class QueueUse:
    """The jobs of a queue, or of one below it, have or ask for something else than before, or limits change.

    An empty name: of any queue.
    """

    name: str = ""


@dataclass(frozen=True, slots=True)
class Pause:
    """Schedule periods begin: one in so many."""

    periods: int


Trigger: TypeAlias = (
    AnyChange
    | Room
    | AnyRoom
    | Eviction
    | Labelled
    | Neighbours
    | ClaimRelease
    | DeviceRelease
    | ObjectChange
    | QueueChange
    | QueueUse
    | Pause
)


@dataclass(frozen=True, slots=True)
class UnschedulableJob:
    """A job not worth a try while it is as in `facts`, its queue does not change, and nothing of `retry_when` happens.

    `kind`: jobs of one kind wait for the same, so that one of them is asked for all; None: it is alone. `reason`: why it waits.
    """

    facts: JobFacts
    retry_when: frozenset[Trigger] = field(default_factory=frozenset)
    kind: bytes | None = None
    reason: str = ""

    @property
    def triggers(self) -> frozenset[Trigger]:
        """All that is worth another look."""
        return self.retry_when | {QueueChange(self.facts.queue)}
