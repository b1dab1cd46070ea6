"""Computes the scheduled time that is due and how many times were missed.

Of the missed times, only the latest one still gets a Job.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from pyroclast.api.records import CronJob
from pyroclast.lifecycle.times import parse_time
from pyroclast_job_controller.core.cron.clock import Clock

MARGIN: Final = 0.1
"""Seconds after a scheduled time at which the controller acts, so that small clock differences never make it act early."""

_MANY: Final = 100


class ScheduleError(ValueError):
    """The schedule has no times, or two times are less than a second apart."""


class Missed(Enum):
    """How many scheduled times have passed since the last one that was acted on."""

    NONE = "none"
    FEW = "few"
    MANY = "many"


@dataclass(frozen=True, slots=True)
class Due:
    """The scheduled time for which a CronJob must act. Times are in seconds since the epoch.

    Attributes:
        earliest: the time after which scheduled times count.
        time: the latest due time. None when no time is due.
        missed: how many times were missed.
    """

    earliest: float
    time: float | None
    missed: Missed


def earliest_time(cron_job: CronJob, last: float | None) -> float:
    """Return the time after which scheduled times count: the last one that was acted on, or the creation of the CronJob."""
    return last if last is not None else parse_time(cron_job.metadata.creation_timestamp or "1970-01-01T00:00:00Z")


def due(clock: Clock, *, earliest: float, now: float, deadline: float | None = None) -> Due:
    """Return the latest time that is later than `earliest` and not later than `now`.

    `deadline` is the time in seconds after which a scheduled time is no longer due. The number of missed times is estimated from
    the distance between the first two times.

    Raises:
        ScheduleError: no two times are at least a second apart.
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
    """Return the seconds until the next reconcile of the CronJob. None when its schedule has no further time."""
    try:
        found = due(clock, earliest=earliest, now=now)
    except ScheduleError:
        base = now
    else:
        base = found.time if found.time is not None else earliest if found.missed is Missed.NONE else now
    following = clock.next(base)
    return None if following is None else following + MARGIN - now
