"""How far the entries of a flow are: what judging one needs to know of those before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from pyroclast.api.enums import FlowReason, JobPhase
from pyroclast.lifecycle.flow.units import BAD_ENDS, Unit

__all__ = ["EntryState", "Stage", "States"]


class Stage(Enum):
    """How far an entry is."""

    WAITING = "waiting"
    """None of its Jobs was made."""
    STARTED = "started"
    """It is at work, or waits to be tried again."""
    DONE = "done"
    """All its Jobs have ended for good, or it needed none."""
    SKIPPED = "skipped"
    """It will not run: another one was chosen, or what it depends on did not run."""


@dataclass(frozen=True, slots=True)
class EntryState:
    """How far one entry is.

    Attributes:
        stage: see there.
        phase: the phase of its Job; of a loop, what its rounds make together.
        units: its Jobs, without the rounds of a loop that were not made.
        wanted: Jobs that should be made now.
        reason: why it waits or was skipped.
        message: the same for people.
        chosen: the entries that its `if` or `switch` chose; None: that is not decided yet.
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
        """Whether the entry has an outcome."""
        return self.stage in (Stage.DONE, Stage.SKIPPED)

    @property
    def has_failed(self) -> bool:
        """Whether it is done without having completed."""
        return self.stage is Stage.DONE and self.phase in BAD_ENDS

    @property
    def has_completed(self) -> bool:
        """Whether it is done, and well."""
        return self.stage is Stage.DONE and self.phase not in BAD_ENDS


States: TypeAlias = Mapping[str, EntryState]
"""Of the entries that were judged, by name."""
