"""The input and the result of a decision about a Job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyroclast.api.enums import JobReason
from pyroclast.api.records import AfterJob, Job, JobStatus, PodGroup, Queue
from pyroclast.api.schedulers import Schedulers
from pyroclast.lifecycle.effects import Effect, Notice, Slot
from pyroclast.lifecycle.gang.members import ObservedPods
from pyroclast.lifecycle.gang.podgroups import Inherited
from pyroclast.lifecycle.job.job_events import Occurrence, Response
from pyroclast.resources.pods import NO_ADDITIONS, Additions


@dataclass(frozen=True, slots=True)
class RequestedAction:
    """An action that a Command requests, or that the controller requests itself.

    `reason` and `message` are written to the status. `command` is the uid of the Command, and is written to the status too; empty
    when the controller requests the action.
    """

    action: str
    reason: JobReason
    message: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class Remembered:
    """Facts about a Job that no object shows; the controller remembers them.

    They may be lost at any moment. After a loss no action is repeated, but some occurrence may get no response.
    """

    occurrences: tuple[Occurrence, ...] = ()
    """Deletions of pods, and PodGroups that became Unknown."""
    prepared: int = 0
    """The generation of the Job for which the plugin objects were created; 0 when they were not created."""
    removed: bool = False
    """Whether the plugin objects were deleted and not created again."""
    armed: tuple[Response, ...] = ()
    """The delayed responses of the last decision."""
    prepared_at: float = 0.0
    """When this controller last created or compared the plugin objects, in seconds since the epoch; 0 when it did not."""
    refused: str = ""
    """Why the API server or the controller refused the last effects for the Job; empty when they were not refused."""
    held: bool = False
    """Whether to create no new objects yet, because they would be refused again."""
    additions: Additions | None = None
    """The additions with which the PodGroup was last compared; None when unknown."""
    carried: Inherited | None = None
    """The metadata of the Job that was last written to its PodGroup; None when unknown."""
    gives_back: bool = False
    """Whether a gang without started pods must delete its pods, because a quota kept it incomplete for too long."""
    seated: frozenset[Slot] = frozenset()
    """The seats of the present PodGroup for which a pod was created as the scheduler decided, on a node or without one."""
    seats_refused: str = ""
    """Why no further pod is created on a seat of the present PodGroup, in one word; empty when pods are created on seats."""
    asked_since: float | None = None
    """When the controller requested seats that are not placed yet, in seconds since the epoch; None without a request."""
    successes: tuple[Occurrence, ...] = ()
    """The successes of pods that were deleted since and that the status of the Job may not name yet."""


@dataclass(frozen=True, slots=True)
class JobFacts:
    """The input of a decision: a Job and the objects that concern it, at one moment."""

    job: Job
    now: float
    """Seconds since the epoch."""
    pods: ObservedPods = field(default_factory=ObservedPods)
    group: PodGroup | None = None
    has_no_group: bool = False
    """Whether the Job gets no PodGroup, as its only pod describes the group; `group` is then read from the pod, if it exists."""
    queue: Queue | None = None
    claims: frozenset[str] = frozenset()
    """Names of existing PersistentVolumeClaims in the namespace of the Job, at least of the claims that the Job names."""
    priorities: Mapping[str, int] = field(default_factory=dict)
    """The value of each PriorityClass, by name."""
    additions: Additions = NO_ADDITIONS
    """What the API server adds to the amounts of new pods in the namespace of the Job."""
    marks: Mapping[str, str] = field(default_factory=dict)
    """The entries of `status.controlledResources` that show that the plugin objects of the Job exist."""
    orders: tuple[RequestedAction, ...] = ()
    """The requested actions, the oldest first."""
    memory: Remembered = Remembered()
    schedulers: Schedulers | None = None
    """The running schedulers; None when they are unknown."""
    silent_nodes: Mapping[str, str] = field(default_factory=dict)
    """When each node with pods of the Job that does not answer stopped to answer, by name, as an API timestamp."""
    own_schedulers: frozenset[str] = frozenset()
    """The names of the schedulers that this controller works with."""
    earlier: tuple[tuple[AfterJob, ...] | None, ...] = ()
    """The existing Jobs that each entry of `spec.after` means, None when they are unknown; empty when the Job waits for none."""
    departed: Mapping[str, str] = field(default_factory=dict)
    """The last phase of ended Jobs that were deleted, by UID, at least of those for which the Job waits."""
    cycle: tuple[str, ...] = ()
    """The names of Jobs that wait for each other, with this Job; empty without such a cycle."""


@dataclass(frozen=True, slots=True)
class JobDecision:
    """The effects to carry out now, and the status to write.

    The effects are carried out in order, and each effect begins after the previous effect has succeeded. When the decision is
    `conclusive`, `status` is written after the effects. Otherwise the controller decides again after the effects, on new facts.
    """

    effects: tuple[Effect, ...] = ()
    status: JobStatus | None = None
    """The status to write; None when the present status stays."""
    conclusive: bool = True
    notices: tuple[Notice, ...] = ()
    armed: tuple[Response, ...] = ()
    """The responses whose delay is not over."""
    recheck_at: float | None = None
    """When to decide again even without any event, in seconds since the epoch; None when events alone are enough."""
    order: RequestedAction | None = None
    """The requested action that this decision carries out; None when there is no such action."""
    forget: frozenset[Occurrence] = frozenset()
    """The remembered occurrences to forget once this decision is carried out."""
    needless: frozenset[Occurrence] = frozenset()
    """The remembered occurrences to forget at once, because no policy applies to them."""
    obstacle: str = ""
    """Why the Job cannot be prepared, when waiting alone may not help; empty when nothing prevents it."""
