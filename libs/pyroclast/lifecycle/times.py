"""Conversion between seconds and the times and durations of the API.

Deadlines are computed in seconds since the epoch. The API shows times in whole seconds of UTC, and durations as Go prints them.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from pyroclast.resources import durations

_UNUSUAL: Final = re.compile(
    r"(\d{4})-(0[1-9]|1[0-2])-(\d\d)[Tt]([01]\d|2[0-3]):([0-5]\d):(60|[0-5]\d)(\.\d+)?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
)
"""RFC 3339 times that `datetime` does not parse: leap seconds, lower-case letters, any offset."""


def parse_time(text: str) -> float:
    """Return an RFC 3339 time in seconds since the epoch; a leap second equals the second after it.

    Raises ValueError: `text` is not an RFC 3339 time.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        found = _UNUSUAL.fullmatch(text)
        if found is None:
            raise
        return _unusual(found)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _unusual(found: re.Match[str]) -> float:
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    whole = datetime(year, month, day, tzinfo=UTC).timestamp() + hour * 3600 + minute * 60 + second
    offset = int(found[9] or 0) * 3600 + int(found[10] or 0) * 60
    return whole + float(found[7] or 0) + (offset if found[8] == "-" else -offset)


def format_time(seconds: float) -> str:
    """Return the time as RFC 3339 in UTC, in whole seconds."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def duration_seconds(text: str) -> float:
    """Return the seconds of a Go duration such as `90s` or `1h30m`. Raises DurationError: `text` is not a Go duration."""
    return durations.nanoseconds(text) / 1e9


def lenient_seconds(text: str | None, default: float = 0.0) -> float:
    """Return `duration_seconds`, at least 0; `default` for None and for an invalid duration, which admission rejects."""
    try:
        return max(0.0, duration_seconds(text)) if text is not None else default
    except ValueError:
        return default


def format_duration(seconds: float) -> str:
    """Return the duration as Go prints it, to the microsecond: `1h30m0s`, `1m12.5s`, `250ms`, `0s`."""
    return durations.shown(round(seconds * 1e6) * 1000)
