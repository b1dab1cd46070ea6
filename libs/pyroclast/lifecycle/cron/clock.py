"""The times of a schedule: the next time after a moment, and the times that a controller missed.

All moments are in seconds since the epoch. A schedule of fields is read in local time. A local time that a change of the clocks
skips does not occur, and one that it repeats occurs twice.
"""

from __future__ import annotations

import calendar
import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from enum import Enum
from typing import Final

from pyroclast.api.records import CronJob
from pyroclast.lifecycle.times import parse_time
from pyroclast.resources.cron import Every, Fields, Schedule

_YEARS: Final = 5
"""How many years ahead a time is searched for, as in the parser of Kubernetes: 29 February is found, except across 2100."""
_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Clock:
    """A schedule in a time zone."""

    schedule: Schedule
    zone: tzinfo = UTC

    def next(self, after: float) -> float | None:
        """Return the first time later than `after`. None when no time follows in the next five years."""
        if isinstance(self.schedule, Every):
            return float(math.floor(after) + self.schedule.seconds)
        return _next(self.schedule, self.zone, after)

    def latest(self, after: float, until: float) -> float | None:
        """Return the last time later than `after` and not later than `until`. None when no time is in between."""
        first = self.next(after)
        if first is None or first > until:
            return None
        if isinstance(self.schedule, Every):
            return first + (until - first) // self.schedule.seconds * self.schedule.seconds
        found, beyond = first, until
        while beyond - found > 1:  # binary search, because half a million times may be in the interval
            middle = (found + beyond) / 2
            later = self.next(middle)
            if later is not None and later <= until:
                found = later
            else:
                beyond = middle
        last = self.next(found)
        return last if last is not None and last <= until else found


def _next(fields: Fields, zone: tzinfo, after: float) -> float | None:
    if not fields.can_fire:
        return None
    here = datetime.fromtimestamp(after, zone)
    begin = here.date()
    if _is_irregular(begin, zone):
        begin -= _DAY  # the clocks may be set back over midnight, which repeats the end of yesterday
    for day in _days(fields, begin, here.year + _YEARS):
        found = _on(fields, day, zone, after)
        if found is None:
            continue
        tomorrow = day + _DAY
        if (_is_irregular(day, zone) or _is_irregular(tomorrow, zone)) and _fits(fields, tomorrow):
            found = min(found, _on(fields, tomorrow, zone, after) or found)
        return found
    return None


def _days(fields: Fields, begin: date, last_year: int) -> Iterator[date]:
    """Yield the matching days from `begin` to the end of `last_year`."""
    for year in range(begin.year, min(last_year, date.max.year - 1) + 1):
        for month in sorted(fields.months):
            if (year, month) < (begin.year, begin.month):
                continue
            first = begin.day if (year, month) == (begin.year, begin.month) else 1
            for number in range(first, calendar.monthrange(year, month)[1] + 1):
                day = date(year, month, number)
                if fields.fits_day(number, day.isoweekday() % 7):
                    yield day


def _fits(fields: Fields, day: date) -> bool:
    return day.month in fields.months and fields.fits_day(day.day, day.isoweekday() % 7)


def _is_irregular(day: date, zone: tzinfo) -> bool:
    """Return whether the clocks change on that day, including both its midnights."""
    begin = datetime(day.year, day.month, day.day, tzinfo=zone)
    end = (begin + _DAY).replace(fold=1)
    return begin.utcoffset() != end.utcoffset()


def _on(fields: Fields, day: date, zone: tzinfo, after: float) -> float | None:
    """Return the first time on `day` that is later than `after`. None when the day has no such time."""
    if _is_irregular(day, zone):
        return min((moment for moment in _all_on(fields, day, zone) if moment > after), default=None)
    midnight = datetime(day.year, day.month, day.day, tzinfo=zone).timestamp()
    for hour in sorted(fields.hours):
        begin = midnight + 3600 * hour
        if begin + 3600 <= after:
            continue
        for minute in sorted(fields.minutes):
            if begin + 60 * minute > after:
                return begin + 60 * minute
    return None


def _all_on(fields: Fields, day: date, zone: tzinfo) -> Iterator[float]:
    for hour in fields.hours:
        for minute in fields.minutes:
            for fold in (0, 1):
                wall = datetime(day.year, day.month, day.day, hour, minute, fold=fold, tzinfo=zone)
                moment = wall.timestamp()
                if datetime.fromtimestamp(moment, zone).replace(tzinfo=None) == wall.replace(tzinfo=None, fold=0):
                    yield moment


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
    """The latest due time of a CronJob, None when no time is due. `earliest`: the time after which scheduled times count."""

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

    Raises ScheduleError: no two times are at least a second apart.
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
