"""Cron expressions: five fields, the descriptors, and the errors of invalid expressions.

Admission checks schedules with this module, and the CronJob controller uses it to compute times. So the controller can run every
schedule that admission accepts.
"""

from __future__ import annotations

import calendar
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pyroclast.resources.durations import DurationError, nanoseconds

MONTHS: Final = {
    name: number
    for number, name in enumerate(("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), 1)
}
WEEKDAYS: Final = {name: number for number, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}
DESCRIPTORS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
EVERY: Final = "@every "
ZONES: Final = ("TZ=", "CRON_TZ=")
LEAP_YEAR: Final = 2024
LONGEST_NUMBER: Final = 4


class CronError(ValueError):
    """The text is not a valid schedule; the message names the faulty part."""


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    low: int
    high: int
    names: Mapping[str, int] = field(default_factory=dict)


_FIELDS: Final = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, MONTHS),
    _Field("day of week", 0, 6, WEEKDAYS),
)


@dataclass(frozen=True, slots=True)
class Every:
    """`@every`: a fixed time after the last time, in whole seconds, at least one second."""

    seconds: int


@dataclass(frozen=True, slots=True)
class Fields:
    """The numbers that each field allows.

    A day fits when both day fields allow it; if both fields are restricted, when one of them allows it.
    """

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    any_weekday: bool

    @property
    def can_fire(self) -> bool:
        """Whether any moment fits the schedule."""
        if not (self.minutes and self.hours and self.months):
            return False
        has_date = any(day <= calendar.monthrange(LEAP_YEAR, month)[1] for month in self.months for day in self.days)
        if self.any_day or self.any_weekday:
            return has_date and bool(self.weekdays)
        return has_date or bool(self.weekdays)

    def fits_day(self, day: int, weekday: int) -> bool:
        """Whether the schedule allows this day. `day`: the day of the month.

        `weekday`: the day of the week, where Sunday is 0.
        """
        if self.any_day or self.any_weekday:
            return day in self.days and weekday in self.weekdays
        return day in self.days or weekday in self.weekdays


Schedule = Fields | Every
"""The result of `parse`."""


def split_zone(text: str) -> tuple[str | None, str]:
    """Return the time zone at the beginning of `text` (`TZ=Asia/Tokyo 0 4 * * *`), None without one, and the schedule
    without it.
    """
    if not text.startswith(ZONES):
        return None, text
    prefix, _, rest = text.partition(" ")
    return prefix.partition("=")[2], rest.strip()


def parse(schedule: str) -> Schedule:
    """Parse `schedule`, which has no time zone in front. Raises CronError: `schedule` is not valid."""
    if schedule.startswith(EVERY):
        try:
            return Every(max(1, nanoseconds(schedule.removeprefix(EVERY)) // 10**9))
        except DurationError as error:
            raise CronError(f"{schedule}: {error}") from None
    if schedule.startswith("@"):
        if schedule not in DESCRIPTORS:
            raise CronError(f"{schedule} is none of {', '.join(DESCRIPTORS)}, @every <duration>")
        schedule = DESCRIPTORS[schedule]
    texts = schedule.split()
    if len(texts) != len(_FIELDS):
        raise CronError(f"5 fields are expected (minute, hour, day of month, month, day of week), not {len(texts)}")
    minutes, hours, days, months, weekdays = (_numbers(text, part) for text, part in zip(texts, _FIELDS, strict=True))
    return Fields(
        minutes=minutes[0],
        hours=hours[0],
        days=days[0],
        months=months[0],
        weekdays=weekdays[0],
        any_day=days[1],
        any_weekday=weekdays[1],
    )


def _numbers(text: str, part: _Field) -> tuple[frozenset[int], bool]:
    """Return the numbers of one field, and whether it is unrestricted; empty items of the list are ignored."""
    numbers: set[int] = set()
    unrestricted = False
    for item in filter(None, text.split(",")):
        low, high, step, star = _range(item, part)
        numbers.update(range(low, high + 1, step))
        unrestricted = unrestricted or (star and step == 1)
    return frozenset(numbers), unrestricted


def _range(item: str, part: _Field) -> tuple[int, int, int, bool]:
    bounds, *steps = item.split("/")
    if len(steps) > 1:
        raise CronError(f"{part.name} {item}: more than one step")
    first, *rest = bounds.split("-")
    star = first in ("*", "?")
    if star:
        low, high = part.low, part.high
    else:
        if len(rest) > 1:
            raise CronError(f"{part.name} {item}: a range has two ends")
        low = _number(first, part, part.names)
        high = _number(rest[0], part, part.names) if rest else low
    step = 1
    if steps:
        step = _number(steps[0], part, {})
        high = part.high if not rest else high
    if part.low <= high < low <= part.high:
        raise CronError(f"{part.name} {item}: the range ends before it begins")
    if low < part.low or high > part.high or low > high:
        raise CronError(f"{part.name} {item}: numbers go from {part.low} to {part.high}")
    if step == 0:
        raise CronError(f"{part.name} {item}: a step is at least 1")
    return low, high, step, star


def _number(text: str, part: _Field, names: Mapping[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    digits = text.removeprefix("+")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= LONGEST_NUMBER):
        known = f" and none of {', '.join(names).upper()}" if names else ""
        raise CronError(f"{part.name} {text}: not a number{known}")
    return int(digits)
