"""The state of each Job of a flow (not created, unfinished, to be created again, or over), of each entry, and of the flow.

The state is read from the Job; if the Job no longer exists, from the status of the flow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pyroclast.api.enums import FlowPhase, FlowReason, JobPhase
from pyroclast.api.records import FlowEntry, FlowJobStatus, FlowRetry, Job
from pyroclast.lifecycle.flow.jobs import retries_of
from pyroclast.lifecycle.times import lenient_seconds, parse_time
from pyroclast.resources.backoff import Backoff

if TYPE_CHECKING:
    from pyroclast.lifecycle.flow.facts import Graph  # its expressions read units

BAD_ENDS: Final = (JobPhase.FAILED, JobPhase.TERMINATED)
"""Phases in which a Job has ended without completing."""

DEFAULT_BACKOFF: Final = 10.0
"""Seconds before a failed Job is created again for the first time, if the entry sets no backoff."""

LONGEST_BACKOFF: Final = 3600.0
"""Seconds at which the doubling stops; an entry may set a longer first backoff."""


class UnitStage(Enum):
    """The state of one Job of a flow."""

    NEW = "new"
    """The Job was never created."""
    LOST = "lost"
    """The Job was created and no longer exists, although it had not ended: it is to be created again."""
    GOING = "going"
    """The Job is being deleted and has not ended."""
    ALIVE = "alive"
    """The Job exists and has not ended."""
    RETRYING = "retrying"
    """The Job failed and is to be created again."""
    OVER = "over"
    """The Job has ended for good."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One Job of an entry. `index`: its round in a loop; None outside of loops. `item`: the item of the round.

    `retry_at` (seconds since the epoch) is only used for RETRYING. `job`: None when the Job does not exist. `known`: the row
    of the Job in the status of the flow; None when the status has no such row.
    """

    name: str
    index: int | None
    stage: UnitStage
    phase: JobPhase
    retries: int = 0
    retry_at: float = 0.0
    job: Job | None = None
    known: FlowJobStatus | None = None
    item: str | None = None

    @property
    def has_started(self) -> bool:
        """Whether the Job was ever created."""
        return self.stage is not UnitStage.NEW

    @property
    def is_over(self) -> bool:
        """Whether the Job has ended for good."""
        return self.stage is UnitStage.OVER

    @property
    def is_over_badly(self) -> bool:
        """Whether the Job has ended for good without completing."""
        return self.is_over and self.phase is not JobPhase.COMPLETED

    @property
    def is_recorded(self) -> bool:
        """Whether the status of the flow has the end of the Job, and with it the outputs."""
        return self.known is not None and self.known.state == self.phase

    @property
    def recorded_code(self) -> int | None:
        """The exit code of the Job in the status of the flow; None when there is none."""
        return self.known.exit_code if self.known is not None else None


def unit_of(  # noqa: PLR0917 - the facts about one Job
    name: str,
    index: int | None,
    job: Job | None,
    known: FlowJobStatus | None,
    retry: FlowRetry | None,
    item: str | None = None,
) -> Unit:
    """Return the Job `name` of a flow entry with its state."""
    phase = job.status.state.phase if job is not None else _phase(known)
    retries = max(known.retries if known is not None else 0, retries_of(job) if job is not None else 0)
    if phase in BAD_ENDS and retry is not None and retries < retry.limit:
        at = _ended(job, known) + _backoff(retry, retries)
        return Unit(name, index, UnitStage.RETRYING, phase, retries, at, job, known, item)
    if phase.is_finished:
        stage = UnitStage.OVER
    elif job is not None:
        stage = UnitStage.GOING if job.metadata.is_terminating else UnitStage.ALIVE
    else:
        stage = UnitStage.NEW if known is None else UnitStage.LOST
    return Unit(name, index, stage, phase, retries, 0.0, job, known, item)


def rounds_of(entry: FlowEntry) -> int | None:
    """Return the largest number of rounds of an entry's loop that the spec shows; None for an entry without a loop."""
    loop = entry.loop
    if loop is None:
        return None
    return len(loop.items) if loop.items else loop.count or 0


def items_of(entry: FlowEntry) -> tuple[str | None, ...]:
    """Return the item of each round of a loop in the spec, its number when the loop has no items; one None without a loop."""
    rounds = rounds_of(entry)
    if rounds is None or entry.loop is None:
        return (None,)
    return tuple(map(str, entry.loop.items or range(rounds)))


def _phase(known: FlowJobStatus | None) -> JobPhase:
    try:
        return JobPhase(known.state) if known is not None else JobPhase.NEW
    except ValueError:  # another writer set the state
        return JobPhase.NEW


def _ended(job: Job | None, known: FlowJobStatus | None) -> float:
    """Return when a Job failed, in seconds since the epoch; 0 when the time is unknown."""
    at = job.status.state.last_transition_time if job is not None else None
    if at is None and known is not None:
        at = known.end_timestamp or (known.running_histories[-1].start_timestamp if known.running_histories else None)
    return _seconds(at)


def _seconds(time: str | None) -> float:
    try:
        return parse_time(time) if time else 0.0
    except ValueError:  # another writer set the time: retry at once
        return 0.0


def _backoff(retry: FlowRetry, retries: int) -> float:
    first = lenient_seconds(retry.backoff or None, DEFAULT_BACKOFF)
    return Backoff(first, max(first, LONGEST_BACKOFF)).after(retries)


class Stage(Enum):
    """The state of a flow entry."""

    WAITING = "waiting"
    """None of the entry's Jobs was created."""
    STARTED = "started"
    """The entry has a Job, or waits to try a failed Job again."""
    DONE = "done"
    """All Jobs of the entry have ended for good, or the entry needed no Job."""
    SKIPPED = "skipped"
    """The entry will not run: it was not chosen, its condition is false, or its targets failed or were skipped."""


@dataclass(frozen=True, slots=True)
class EntryState:
    """The state of one entry. `phase`: the phase of its Job; for a loop, the combined phase of its rounds.

    `units`: its Jobs, without the rounds of a loop that were not created. `wanted`: the Jobs that should be created now.
    `reason` and `message`: why the entry waits or was skipped. `chosen`: the entries that its `else` or `switch` chose; None when
    the choice is not made yet. `values`: the values of the references in the patch of the entry, by their expressions.
    """

    stage: Stage
    phase: JobPhase = JobPhase.NEW
    units: tuple[Unit, ...] = ()
    wanted: tuple[Unit, ...] = ()
    reason: FlowReason | None = None
    message: str = ""
    chosen: frozenset[str] | None = None
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_decided(self) -> bool:
        """Whether the entry is done or skipped, so that its outcome is known."""
        return self.stage in (Stage.DONE, Stage.SKIPPED)

    @property
    def has_failed(self) -> bool:
        """Whether the entry is done but has not completed."""
        return self.stage is Stage.DONE and self.phase in BAD_ENDS

    @property
    def has_completed(self) -> bool:
        """Whether the entry is done and has completed."""
        return self.stage is Stage.DONE and self.phase not in BAD_ENDS


States: TypeAlias = Mapping[str, EntryState]
"""The states of the judged entries, by name."""


@dataclass(frozen=True, slots=True)
class Tally:
    """The facts that determine the phase of a flow.

    `known`: whether any Job was created. `moving`: whether an entry is decided, or a Job runs, has ended, or is to be tried
    again. `failed`: whether an entry failed for good and no other entry reads its outcome. `only_terminated`: whether no such
    failure has phase Failed, and another Job runs or has completed. `done`: whether all entries are decided.
    """

    entries: int
    known: bool
    moving: bool
    failed: bool
    only_terminated: bool
    done: bool


def tally(graph: Graph, states: States) -> Tally:
    """Compute the Tally of all entries."""
    fatal = [state.phase for name, state in states.items() if state.has_failed and name not in graph.tolerated]
    units = [unit for state in states.values() for unit in state.units]
    is_decided = [state.is_decided for state in states.values()]
    moved = (unit.stage in (UnitStage.OVER, UnitStage.RETRYING) or unit.phase is JobPhase.RUNNING for unit in units)
    going_well = (unit.phase in (JobPhase.RUNNING, JobPhase.COMPLETED) for unit in units)
    return Tally(
        entries=len(graph.nodes),
        known=any(state.units for state in states.values() if state.stage is not Stage.WAITING),
        moving=any(is_decided) or any(moved),
        failed=bool(fatal),
        only_terminated=JobPhase.FAILED not in fatal and any(going_well),
        done=all(is_decided),
    )


def next_phase(phase: FlowPhase, counted: Tally) -> FlowPhase:
    """Return the phase that follows `phase`, one step. The caller calls again until the phase stays the same.

    A flow has no phase until its first Job is created, unless the flow has no entries.
    """
    match phase:
        case FlowPhase.NEW | FlowPhase.PENDING:
            if counted.entries == 0:
                return FlowPhase.PENDING
            if counted.moving and (not counted.failed or counted.only_terminated):
                return FlowPhase.RUNNING  # if a Job is Terminated, the flow fails one step later
            if counted.failed:
                return FlowPhase.FAILED
            return FlowPhase.PENDING if counted.known else phase
        case FlowPhase.RUNNING:
            if counted.failed:
                return FlowPhase.FAILED
            return FlowPhase.SUCCEED if counted.done else FlowPhase.RUNNING
        case FlowPhase.SUCCEED | FlowPhase.FAILED | FlowPhase.TERMINATING:
            return phase
