"""What comes out of a session, as values: what is to be bound and evicted, and what is to be written about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyroclast.api.records.meta import Record
from pyroclast.api.types import Key, ResourceType
from pyroclast_scheduler.model.causes import WaitingRecord
from pyroclast_scheduler.model.dimensions import Amounts
from pyroclast_scheduler.model.faults import Fault
from pyroclast_scheduler.model.groups import GroupStatus
from pyroclast_scheduler.model.kept_places import KeptPlace
from pyroclast_scheduler.model.reservations import Reservation
from pyroclast_scheduler.model.retry_conditions import UnschedulableJob
from pyroclast_scheduler.model.tasks import TaskFacts
from pyroclast_scheduler.session.measures import Measures

__all__ = ["Await", "Binds", "Commit", "Eviction", "Note", "Outcome", "Preparation", "WaitingTask", "Write"]


@dataclass(frozen=True, slots=True)
class Write:
    """A merge patch of an object; `undo` takes it back if the pod cannot be bound after all, None if it may stay.

    `record`: as what the object is watched; sessions see the patch as done while it is on its way. None: nobody looks at it.
    `is_shared`: it is done for all pods of the gang, or of the part of it, and taken back when none of them has a place any more.
    """

    kind: ResourceType
    key: Key
    patch: Mapping[str, Any]
    undo: Mapping[str, Any] | None = None
    subresource: str = ""
    record: type[Record] | None = None
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class Await:
    """Something that others must do before a pod can be bound.

    `judge` is asked of the watched object, None while there is none: True when it is done, False while it is not, or why it never
    will be. `patience`: seconds.
    """

    record: type[Record]
    key: str
    judge: Callable[[Any], bool | str]
    patience: float


@dataclass(frozen=True, slots=True)
class Preparation:
    """What binding a pod takes beside its node: annotations that go with the binding, writes that must succeed before it.

    `awaits`: what has to come about between the writes and the binding. `node_lock`: the annotation of the node that is its lock,
    taken before all else and released by the node's agent once the pod runs there; empty: none.
    """

    annotations: Mapping[str, str] = field(default_factory=dict)
    writes: tuple[Write, ...] = ()
    awaits: tuple[Await, ...] = ()
    node_lock: str = ""


@dataclass(frozen=True, slots=True)
class Binds:
    """Pods of one job that are to be bound together: (pod UID, node name); `preparations`: by UID, for those that need any.

    What the snapshot calls the UID of a task comes out as it was: for one whose pod does not exist yet, the name of its seat.
    """

    job: str
    placed: tuple[tuple[str, str], ...]
    preparations: Mapping[str, tuple[Preparation, ...]] = field(default_factory=dict)


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
class WaitingTask:
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

    `seen`: the jobs that it looked at; of others it says nothing, so that what was said of them before stands. `drawn`: jobs that
    were at rest before, which it looked at or has the next one look at. `unschedulable`: not worth another look, until when.
    `statuses`: by PodGroup, the status that it should have and does not have yet. `bare`: PodGroups that are Pending and may not
    say so, since an absent phase reads like that.
    `kept`: by UID, the places that pods get once what goes there is gone, and those that gangs which wait for them have already:
    for other jobs of the session they were taken. `incomplete`: PodGroups that hold places without being ready, with tasks that
    wait. `let_in`: pods that lose the gate of their queue. `reservations`: by job; None before the session ended. `released`:
    jobs that had one when the session began. `queues`: what each queue has allocated. `faults`: objects that make no sense to
    plugins. `records`: by PodGroup, why it waits; of those that were seen and have none, none waits. `ranked_by`: the plugins
    whose ranks the places of jobs begin with.
    """

    seen: set[str] = field(default_factory=set)
    drawn: list[str] = field(default_factory=list)
    unschedulable: list[UnschedulableJob] = field(default_factory=list)
    statuses: dict[str, GroupStatus] = field(default_factory=dict)
    bare: list[str] = field(default_factory=list)
    waiting: list[WaitingTask] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    incomplete: list[str] = field(default_factory=list)
    queues: Mapping[str, Amounts] = field(default_factory=dict)
    unready: Mapping[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    faults: frozenset[Fault] = frozenset()
    reservations: Mapping[str, Reservation] | None = None
    released: frozenset[str] = frozenset()
    measures: Measures = field(default_factory=Measures)
    let_in: list[TaskFacts] = field(default_factory=list)
    kept: dict[str, KeptPlace] = field(default_factory=dict)
    records: dict[str, WaitingRecord] = field(default_factory=dict)
    ranked_by: tuple[str, ...] = ()

    @property
    def promised(self) -> dict[str, str]:
        """By UID, the node that a pod gets once what goes there is gone."""
        return {uid: place.node for uid, place in self.kept.items() if place.is_coming}
