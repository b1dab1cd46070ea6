"""The results of a session as values: binds and evictions, statuses and Events to be written, faults, numbers for the metrics.

They stand apart from the session, because the shell reads them after the session is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pyroclast.api.records.meta import Record
from pyroclast.api.types import Key, ResourceType
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast.lifecycle.gang.groups import GroupStatus
from pyroclast_scheduler.model.budgets import BudgetStanding
from pyroclast_scheduler.model.causes import WaitingRecord
from pyroclast_scheduler.model.dimensions import Amounts
from pyroclast_scheduler.model.faults import Fault
from pyroclast_scheduler.model.node_columns import Floats
from pyroclast_scheduler.model.reservations import KeptPlace, Reservation
from pyroclast_scheduler.model.tasks import TaskFacts
from pyroclast_scheduler.model.triggers import UnschedulableJob


class CardUse(NamedTuple):
    """A shared device (card): its memory, and for each pod on it the name, the memory and the hundredths of cores."""

    card: str
    memory: int
    pods: tuple[tuple[str, int, int], ...]


@dataclass(slots=True)
class Measures:
    """The numbers of one session.

    Attributes:
        names: the names of all dimensions.
        amounts: vectors over the dimensions by kind (such as allocated or deserved) and queue.
        numbers: numbers by kind (such as share or weight) and queue.
        shares: the dominant shares of the jobs that the session examined.
        attempts: the number of nodes on which a set of victims was sufficient.
        victims: the number of victims in the last of these attempts; None if there was none.
        cards: the shared devices of the nodes that changed, by node.
        budgets: the states of budgets by queue.
    """

    names: Sequence[str] = ()
    amounts: dict[str, Mapping[str, Floats]] = field(default_factory=dict)
    numbers: dict[str, Mapping[str, float]] = field(default_factory=dict)
    shares: dict[str, float] = field(default_factory=dict)
    attempts: int = 0
    victims: int | None = None
    cards: dict[str, tuple[CardUse, ...]] = field(default_factory=dict)
    budgets: Mapping[str, BudgetStanding] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Write:
    """A merge patch of an object.

    Attributes:
        kind: the resource type of the object.
        key: the key of the object.
        patch: the merge patch.
        undo: a merge patch that reverts `patch` if the pod cannot be bound; None if the patch may stay.
        subresource: the subresource that is patched; empty for the object itself.
        record: the class to which the watch of a plugin decodes the object, so that sessions see the patch before the API server
            confirms it; None if no plugin watches the object.
        is_shared: whether the patch serves all pods of a gang, or of a part of a gang. Such a patch is only reverted when none of
            these pods is allocated.
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
    """A condition on a watched object that must be true before a pod can be bound.

    Attributes:
        record: the class to which the watch decodes the object.
        key: namespace/name of the object.
        judge: called with the object, or None if it does not exist. Returns True when the condition is true, False while it is
            false, and a reason if it can never become true.
        patience: for how many seconds the scheduler waits.
    """

    record: type[Record]
    key: str
    judge: Callable[[Any], bool | str]
    patience: float


@dataclass(frozen=True, slots=True)
class Preparation:
    """The steps that the bind of a pod requires besides the binding.

    Attributes:
        annotations: written to the pod with the binding.
        writes: patches that must succeed before the binding.
        awaits: conditions that must be true between the writes and the binding.
        node_lock: the annotation that locks the node; empty for none. The scheduler sets it first, and the agent of the node
            removes it once the pod runs.
    """

    annotations: Mapping[str, str] = field(default_factory=dict)
    writes: tuple[Write, ...] = ()
    awaits: tuple[Await, ...] = ()
    node_lock: str = ""


@dataclass(frozen=True, slots=True)
class Binds:
    """Pods of one job that are bound together, as (pod UID, node name). `preparations`: by UID, for pods that require steps.

    For a seat, whose pod does not exist yet, the UID is the name of the seat.
    """

    job: str
    placed: tuple[tuple[str, str], ...]
    preparations: Mapping[str, tuple[Preparation, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod that is evicted, and the reason: the name of the action. `preemptors`: the jobs that get the room, by key."""

    task: TaskFacts
    job: str
    reason: str
    preemptors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Commit:
    """The binds and evictions of one statement."""

    binds: tuple[Binds, ...] = ()
    evictions: tuple[Eviction, ...] = ()


@dataclass(frozen=True, slots=True)
class Note:
    """A Kubernetes Event for a PodGroup. `kind`: the type of the Event, Normal or Warning."""

    job: str
    kind: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class WaitingTask:
    """A pending pod, and the reason and message of its condition PodScheduled=False.

    `nominated`: the node on which pods are evicted for it, empty if none. `members`: how many its gang has, if these are too few.
    """

    task: TaskFacts
    reason: str
    message: str
    nominated: str = ""
    members: int | None = None


def without_group(task: TaskFacts) -> WaitingTask:
    """Return the condition of a pod that names a PodGroup which does not exist. Its reason makes autoscalers add no nodes."""
    name = task.job.partition("/")[2].partition("@")[0]
    text = f"{PendingReason.LEFT_OUT}: PodGroup {name} does not exist; create it in namespace {task.namespace}"
    return WaitingTask(task, "SchedulerError", text)


@dataclass(slots=True)
class Outcome:
    """The results of a session besides its commits.

    Attributes:
        seen: the jobs that the session examined; earlier results of other jobs stay valid.
        retried: formerly unschedulable jobs that this session examined or that the next session must examine.
        unschedulable: the jobs that need no further try until one of their triggers fires.
        statuses: the new status of each PodGroup whose status changes.
        bare: PodGroups in phase Pending whose stored status may be empty, since an empty phase is read as Pending.
        waiting: the pending pods.
        notes: the Events of PodGroups.
        incomplete: PodGroups that are not ready, with both placed and pending pods.
        queues: the allocated amounts by queue.
        unready: the number of missing members of each gang that is not ready.
        warnings: texts about the configuration.
        faults: invalid objects that plugins reported.
        reservations: the reservations by job; None if no plugin makes any.
        released: jobs whose reservation ended in this session.
        lapsed: queues in which a promise to a gang ended by time alone.
        unkept: the jobs whose promise ended by time.
        measures: numbers for the metrics.
        let_in: pods whose queue gate is removed.
        kept: the room on nodes that is reserved for a pod of this session, by UID: for pipelined pods, and for allocated pods of
            gangs that are not ready. Other jobs could not use this room.
        records: the cause of each waiting PodGroup; a PodGroup in `seen` without a record does not wait.
        ranked_by: the plugins whose ranks are the first elements of the rank of a job.
    """

    seen: set[str] = field(default_factory=set)
    retried: list[str] = field(default_factory=list)
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
    lapsed: frozenset[str] = frozenset()
    unkept: frozenset[str] = frozenset()
    measures: Measures = field(default_factory=Measures)
    let_in: list[TaskFacts] = field(default_factory=list)
    kept: dict[str, KeptPlace] = field(default_factory=dict)
    records: dict[str, WaitingRecord] = field(default_factory=dict)
    ranked_by: tuple[str, ...] = ()

    @property
    def promised(self) -> dict[str, str]:
        """The node of each pipelined pod, by UID of the pod."""
        return {uid: place.node for uid, place in self.kept.items() if place.is_coming}


@dataclass(slots=True)
class Report:
    """The results to which plugins and actions add: Events on PodGroups, invalid objects, pods whose queue gate is removed, …"""

    measures: Measures
    notes: list[Note] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    faults: set[Fault] = field(default_factory=set)
    let_in: list[TaskFacts] = field(default_factory=list)
