"""Triggers: the changes after which the scheduler tries an unschedulable job again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.shapes import Shape


class Trigger:
    """A change after which a job is tried again."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class AnyChange(Trigger):
    """Any change of the cluster."""


@dataclass(frozen=True, slots=True)
class Room(Trigger):
    """The room on some node increases, and all nodes together have room for `pods` more pods of `shape`."""

    shape: Shape
    pods: int = 1


@dataclass(frozen=True, slots=True)
class AnyRoom(Trigger):
    """The room on some node increases, in any resource."""


@dataclass(frozen=True, slots=True)
class Eviction(Trigger):
    """The set of possible victims for a pod of `shapes` of a job of `queue` changes.

    `only_own`: only victims in the same queue count.
    """

    queue: str
    shapes: frozenset[Shape]
    only_own: bool


@dataclass(frozen=True, slots=True)
class Labelled(Trigger):
    """A pod with the label `key`=`value` is placed on a node, leaves a node, or changes on a node."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class Neighbours(Trigger):
    """A pod with anti-affinity terms leaves a node or changes there, or a node changes in more than its room."""


@dataclass(frozen=True, slots=True)
class ClaimRelease(Trigger):
    """A pod with PersistentVolumeClaims or ResourceClaims leaves a node."""


@dataclass(frozen=True, slots=True)
class DeviceRelease(Trigger):
    """The allocation of a ResourceClaim ends, so that its devices are free."""


@dataclass(frozen=True, slots=True)
class ObjectChange(Trigger):
    """An object that a plugin watches is created, changed or deleted.

    `record`: the type to which the object is decoded. `key`: namespace/name; empty for any object of the kind.
    """

    record: type[Any]
    key: str = ""


@dataclass(frozen=True, slots=True)
class QueueChange(Trigger):
    """The queue `name` or one of its ancestors is created or deleted, or may use more resources."""

    name: str


@dataclass(frozen=True, slots=True)
class QueueUse(Trigger):
    """The allocated or requested amounts of a queue or of its descendants change, or a limit changes.

    An empty `name` stands for any queue.
    """

    name: str = ""


@dataclass(frozen=True, slots=True)
class Pause(Trigger):
    """Retry the job once in `periods` schedule periods."""

    periods: int


@dataclass(frozen=True, slots=True)
class UnschedulableJob:
    """A job that is not tried again until its facts or its queue change or one of the triggers `retry_when` fires.

    `equivalence_class`: one of its jobs is tried for all of them. None when the job is the only one of its class.
    `reason`: why the job waits.
    """

    facts: JobFacts
    retry_when: frozenset[Trigger] = field(default_factory=frozenset)
    equivalence_class: bytes | None = None
    reason: str = ""

    @property
    def triggers(self) -> frozenset[Trigger]:
        """The triggers in `retry_when` and the change of the job's queue."""
        return self.retry_when | {QueueChange(self.facts.queue)}
