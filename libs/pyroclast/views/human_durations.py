"""Durations in tables: `62s`, `3m10s`, `5d9h`."""

from __future__ import annotations

from datetime import datetime
from typing import Final

UNKNOWN: Final = "<unknown>"
MINUTE: Final = 60
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
YEAR: Final = 365 * DAY


def human_duration(seconds: float, *, keeps_zero_days: bool = False) -> str:
    """Return a duration in at most two units. `keeps_zero_days`: write `5y0d` like Volcano's tables of Jobs, instead of `5y`."""
    whole = int(seconds)
    if whole < 0:
        return "0s" if whole == -1 else "<invalid>"
    if whole < 2 * MINUTE:
        return f"{whole}s"
    if whole < 10 * MINUTE:
        return _two(whole, MINUTE, "m", 1, "s")
    if whole < 3 * HOUR:
        return f"{whole // MINUTE}m"
    if whole < 8 * HOUR:
        return _two(whole, HOUR, "h", MINUTE, "m")
    if whole < 2 * DAY:
        return f"{whole // HOUR}h"
    if whole < 8 * DAY:
        return _two(whole, DAY, "d", HOUR, "h")
    if whole < 2 * YEAR:
        return f"{whole // DAY}d"
    if whole < 8 * YEAR:
        days = whole % YEAR // DAY
        return f"{whole // YEAR}y{days}d" if days or keeps_zero_days else f"{whole // YEAR}y"
    return f"{whole // YEAR}y"


def age(timestamp: str | None, now: datetime, *, keeps_zero_days: bool = False) -> str:
    """Return the age of an API timestamp; `<unknown>` without a timestamp."""
    if not timestamp:
        return UNKNOWN
    return human_duration((now - datetime.fromisoformat(timestamp)).total_seconds(), keeps_zero_days=keeps_zero_days)


def _two(whole: int, unit: int, name: str, part: int, part_name: str) -> str:
    rest = whole % unit // part
    return f"{whole // unit}{name}{rest}{part_name}" if rest else f"{whole // unit}{name}"
