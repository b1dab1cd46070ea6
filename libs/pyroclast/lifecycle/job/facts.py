"""What a decision about a Job is made from, and what it consists of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyroclast.api.enums import JobReason
from pyroclast.api.records import Job, JobStatus, PodGroup, Queue
from pyroclast.api.schedulers import Schedulers
from pyroclast.lifecycle.effects import Effect, Slot
from pyroclast.lifecycle.gang.observed_pods import ObservedPods
from pyroclast.lifecycle.gang.podgroups import Inherited
from pyroclast.lifecycle.job.job_events import Occurrence
from pyroclast.lifecycle.job.policies import Response
from pyroclast.lifecycle.notices import Notice

__all__ = ["JobDecision", "JobFacts", "Remembered", "RequestedAction"]


@dataclass(frozen=True, slots=True)
class RequestedAction:
    """An action that somebody asked for by a Command, or that the controller gives itself.

    `reason` and `message` go into the status, and so does `command`, the uid of the Command, if there is one.
    """

    action: str
    reason: JobReason
    message: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class Remembered:
    """What happened and shows in no object.

    It may be lost at any moment: then nothing is doubled, at worst something is not answered.
    """

    occurrences: tuple[Occurrence, ...] = ()
    """Deletions of pods, and PodGroups that turned Unknown."""
    prepared: int = 0
    """The generation of the Job for which the plugin objects were made; 0: none."""
    removed: bool = False
    """The plugin objects were deleted, and not made since."""
    armed: tuple[Response, ...] = ()
    """Answers whose time runs, as the last decision had them."""
    refused: str = ""
    """Why the Job could not get on when that was tried last; empty: it could."""
    held: bool = False
    """Nothing new is to be made yet: it would be refused again."""
    carried: Inherited | None = None
    """What was written of the Job into its PodGroup last; None: nothing, as far as is known."""
    gives_back: bool = False
    """A gang of which none has started has to let go of its pods: it was kept from being complete for too long."""
    seated: frozenset[Slot] = frozenset()
    """The seats of the present PodGroup for which a pod was made as the scheduler has said of them."""
    seats_refused: str = ""
    """Why no further pod is created on a seat of the present PodGroup, in one word; empty when they are."""
    asked_since: float | None = None
    """Since when seats are asked for and the scheduler has not answered, in seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class JobFacts:
    """All that is known of a Job at one moment."""

    job: Job
    now: float
    """Seconds since the epoch."""
    pods: ObservedPods = field(default_factory=ObservedPods)
    group: PodGroup | None = None
    queue: Queue | None = None
    claims: frozenset[str] = frozenset()
    """Names of the claims in the Job's namespace, those that the Job names at least."""
    priorities: Mapping[str, int] = field(default_factory=dict)
    """PriorityClasses by name."""
    marks: Mapping[str, str] = field(default_factory=dict)
    """The entries of `status.controlledResources` that the plugins of the Job leave when they are set up."""
    orders: tuple[RequestedAction, ...] = ()
    """What is asked for, the oldest first."""
    memory: Remembered = Remembered()
    schedulers: Schedulers | None = None
    """The schedulers at work; None: it is not known who is."""
    own_schedulers: frozenset[str] = frozenset()
    """The names of the schedulers that this controller works with."""


@dataclass(frozen=True, slots=True)
class JobDecision:
    """What to do now.

    The effects come first, in order; each step is begun when the one before it has gone well. If they are `conclusive`, `status`
    is what to write then. Otherwise the world has to be looked at again after them.
    """

    effects: tuple[Effect, ...] = ()
    status: JobStatus | None = None
    """The status to write; None: it is right as it is."""
    conclusive: bool = True
    notices: tuple[Notice, ...] = ()
    armed: tuple[Response, ...] = ()
    """Answers that wait for their time."""
    recheck_at: float | None = None
    """When to decide anew even if nothing happens, in seconds since the epoch."""
    order: RequestedAction | None = None
    """The order that this carries out: it is done with when the decision is."""
    forget: frozenset[Occurrence] = frozenset()
    """Remembered occurrences that are done with when the decision is."""
    needless: frozenset[Occurrence] = frozenset()
    """Those of them that are done with at once: no policy has anything to do for them."""
    obstacle: str = ""
    """Why the Job cannot get on although it should, when waiting alone may not help."""
