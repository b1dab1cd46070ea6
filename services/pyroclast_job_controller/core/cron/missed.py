"""Which time of a schedule is due, and how many were missed: only the most recent one is ever made up for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from pyroclast.api.records import CronJob
from pyroclast.lifecycle.times import parse_time
from pyroclast_job_controller.core.cron.clock import Clock

__all__ = ["MARGIN", "Due", "Missed", "ScheduleError", "due", "earliest_time", "wait"]

MARGIN: Final = 0.1
"""Seconds after a time of the schedule at which it is acted on, so that clocks that differ a little do not act early."""

_MANY: Final = 100


class ScheduleError(ValueError):
    """The schedule has no times, or they cannot be told apart."""


class Missed(Enum):
    """How many times have passed since the last one that was acted on."""

    NONE = "none"
    FEW = "few"
    MANY = "many"


@dataclass(frozen=True, slots=True)
class Due:
    """The scheduled time that a CronJob has to act on.

    `earliest`: from when on times count. `time`: the most recent one, None when there is none. In seconds since the epoch.
    """

    earliest: float
    time: float | None
    missed: Missed


def earliest_time(cron_job: CronJob, last: float | None) -> float:
    """From when on times count: the last one that was acted on, else the CronJob's creation."""
    return last if last is not None else parse_time(cron_job.metadata.creation_timestamp or "1970-01-01T00:00:00Z")


def due(clock: Clock, *, earliest: float, now: float, deadline: float | None = None) -> Due:
    """The most recent time later than `earliest` and not later than `now`.

    `deadline`: seconds after which a time no longer counts. How many were missed is estimated from the distance of the first two.

    Raises:
        ScheduleError: no two times differ by a second.
    """
    if deadline is not None:
        earliest = max(earliest, now - deadline)
    first = clock.next(earliest)
    second = clock.next(first) if first is not None else None
    if first is not None and now < first:
        return Due(earliest, None, Missed.NONE)
    if first is not None and second is not None and now < second:
        return Due(earliest, first, Missed.NONE)
    if first is None or second is None:
        raise ScheduleError("time difference between two schedules is less than 1 second")
    gap = max(1, round(second - first))
    missed = int((now - first) // gap) + 1
    return Due(earliest, clock.latest(earliest, now), Missed.MANY if missed > _MANY else Missed.FEW)


def wait(clock: Clock, *, earliest: float, now: float) -> float | None:
    """Seconds until the CronJob has to be looked at again; None when its schedule has no further time."""
    try:
        found = due(clock, earliest=earliest, now=now)
    except ScheduleError:
        base = now
    else:
        base = found.time if found.time is not None else earliest if found.missed is Missed.NONE else now
    following = clock.next(base)
    return None if following is None else following + MARGIN - now
