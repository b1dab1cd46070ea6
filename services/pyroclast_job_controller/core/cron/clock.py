"""The times of a schedule: the next time after a moment, and the latest time up to a moment.

All moments are in seconds since the epoch. A schedule of fields is read in local time. A local time that a change of the clocks
skips does not occur, and one that it repeats occurs twice.
"""

from __future__ import annotations

import calendar
import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Final

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
