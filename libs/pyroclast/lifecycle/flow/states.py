"""The states of the entries of a flow: what judging an entry needs to know about the entries before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from pyroclast.api.enums import FlowReason, JobPhase
from pyroclast.lifecycle.flow.units import BAD_ENDS, Unit


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
    """The state of one entry.

    Attributes:
        stage: whether the entry waits, has started, is done, or was skipped.
        phase: the phase of the entry's Job; for a loop, the combined phase of its rounds.
        units: the entry's Jobs, without the rounds of a loop that were not created.
        wanted: the Jobs that should be created now.
        reason: why the entry waits or was skipped, as a code; None when it does neither.
        message: why the entry waits or was skipped, as text.
        chosen: the entries that the entry's `else` or `switch` chose; None when the choice is not made yet.
    """

    stage: Stage
    phase: JobPhase = JobPhase.NEW
    units: tuple[Unit, ...] = ()
    wanted: tuple[Unit, ...] = ()
    reason: FlowReason | None = None
    message: str = ""
    chosen: frozenset[str] | None = None

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
