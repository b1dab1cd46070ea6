"""Where each Job of a flow stands: not made, at work, to be made anew, over.

The Job tells, or the status of the flow where it is gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from pyroclast.api.enums import JobPhase
from pyroclast.api.records import FlowEntry, FlowJobStatus, FlowRetry, Job
from pyroclast.lifecycle.flow.names import retries_of
from pyroclast.lifecycle.times import duration_seconds, parse_time
from pyroclast.resources.durations import DurationError

__all__ = ["BAD_ENDS", "LONGEST_BACKOFF", "Unit", "UnitStage", "item_of", "rounds_of", "unit_of"]

BAD_ENDS: Final = (JobPhase.FAILED, JobPhase.TERMINATED)
"""Phases in which a Job has ended without having done what it was for."""

DEFAULT_BACKOFF: Final = 10.0
"""Seconds before a failed Job is made anew for the first time, where the entry does not say."""

LONGEST_BACKOFF: Final = 3600.0
"""Seconds that the doubling stops at; a longer one that the entry asks for is kept."""


class UnitStage(Enum):
    """How far a Job is."""

    NEW = "new"
    """It was never made."""
    LOST = "lost"
    """It was made, but is gone without having ended: to be made again."""
    GOING = "going"
    """It is being deleted without having ended."""
    ALIVE = "alive"
    """It is there and has not ended."""
    RETRYING = "retrying"
    """It failed and is to be made anew."""
    OVER = "over"
    """It has ended for good."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One Job of an entry; `index` is its round in a loop. `retry_at` (seconds since the epoch) is for RETRYING alone.

    `job` is the Job while it is there, `known` what the status says of it.
    """

    name: str
    index: int | None
    stage: UnitStage
    phase: JobPhase
    retries: int = 0
    retry_at: float = 0.0
    job: Job | None = None
    known: FlowJobStatus | None = None

    @property
    def has_started(self) -> bool:
        """Whether the Job was ever made."""
        return self.stage is not UnitStage.NEW

    @property
    def is_over(self) -> bool:
        """Whether nothing will change any more."""
        return self.stage is UnitStage.OVER


def unit_of(name: str, index: int | None, job: Job | None, known: FlowJobStatus | None, retry: FlowRetry | None) -> Unit:
    """Where the Job `name` stands."""
    phase = job.status.state.phase if job is not None else _phase(known)
    retries = max(known.retries if known is not None else 0, retries_of(job) if job is not None else 0)
    if phase in BAD_ENDS and retry is not None and retries < retry.limit:
        at = _ended(job, known) + _backoff(retry, retries)
        return Unit(name, index, UnitStage.RETRYING, phase, retries, at, job, known)
    if phase.is_finished:
        stage = UnitStage.OVER
    elif job is not None:
        stage = UnitStage.GOING if job.metadata.is_terminating else UnitStage.ALIVE
    else:
        stage = UnitStage.NEW if known is None else UnitStage.LOST
    return Unit(name, index, stage, phase, retries, 0.0, job, known)


def rounds_of(entry: FlowEntry) -> int | None:
    """How many rounds the loop of an entry has at most; None without a loop."""
    loop = entry.loop
    if loop is None:
        return None
    return len(loop.items) if loop.items else loop.count or 0


def item_of(entry: FlowEntry, index: int) -> str:
    """What round `index` is about: the item, or the number of the round where the loop only counts."""
    return str(entry.loop.items[index]) if entry.loop is not None and entry.loop.items else str(index)


def _phase(known: FlowJobStatus | None) -> JobPhase:
    try:
        return JobPhase(known.state) if known is not None else JobPhase.NEW
    except ValueError:  # written by somebody else
        return JobPhase.NEW


def _ended(job: Job | None, known: FlowJobStatus | None) -> float:
    """When a Job failed, in seconds since the epoch."""
    at = job.status.state.last_transition_time if job is not None else None
    if at is None and known is not None:
        at = known.end_timestamp or (known.running_histories[-1].start_timestamp if known.running_histories else None)
    return _seconds(at)


def _seconds(time: str | None) -> float:
    try:
        return parse_time(time) if time else 0.0
    except ValueError:  # written by somebody else: at once, then
        return 0.0


def _backoff(retry: FlowRetry, retries: int) -> float:
    try:
        first = duration_seconds(retry.backoff) if retry.backoff else DEFAULT_BACKOFF
    except DurationError:  # admission refuses it; it may have been switched off
        first = DEFAULT_BACKOFF
    first = max(0.0, first)
    return max(first, min(first * 2.0 ** min(retries, 60), LONGEST_BACKOFF))
