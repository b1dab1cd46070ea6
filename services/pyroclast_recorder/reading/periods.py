"""Named periods of time in UTC, such as days and months. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

LENGTHS: Final = {"hour": 3600, "day": 86_400}
"""The seconds of the periods with a fixed length."""


def period_of(seconds: int, per: str) -> str:
    """Return the name of the hour, day, week or month of a time, in the form of ISO 8601."""
    moment = datetime.fromtimestamp(seconds, UTC)
    match per:
        case "hour":
            return moment.strftime("%Y-%m-%dT%H:00Z")
        case "day":
            return moment.strftime("%Y-%m-%d")
        case "week":
            year, week, _ = moment.isocalendar()
            return f"{year}-W{week:02}"
    return moment.strftime("%Y-%m")


def spans(since: int, until: int, per: str) -> Iterator[tuple[str, int, int]]:
    """Yield the name, the first second and the last second of each week or month between two times.

    For `per` "all", yield one span from `since` to `until` with an empty name.
    """
    begin = since
    while begin <= until:
        end = until if per == "all" else min(until, _next(begin, per) - 1)
        yield "" if per == "all" else period_of(begin, per), begin, end
        begin = end + 1


def _next(seconds: int, per: str) -> int:
    """Return the start of the next week or month, in seconds since the epoch."""
    day = datetime.fromtimestamp(seconds, UTC).replace(hour=0, minute=0, second=0)
    if per == "week":
        return int((day + timedelta(days=7 - day.weekday())).timestamp())
    return int((day.replace(day=1) + timedelta(days=32)).replace(day=1).timestamp())
