"""Times and durations as the API writes them, as plain seconds.

Seconds since the epoch are what deadlines are worked out in; the API shows whole seconds in UTC, and durations as Go prints them.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from pyroclast.resources import durations

__all__ = ["duration_seconds", "format_duration", "format_time", "parse_time"]

_UNUSUAL: Final = re.compile(
    r"(\d{4})-(0[1-9]|1[0-2])-(\d\d)[Tt](\d\d):(\d\d):(60|[0-5]\d)(\.\d+)?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
)
"""RFC 3339 beyond what `datetime` knows: leap seconds, small letters, any offset."""


def parse_time(text: str) -> float:
    """Seconds since the epoch of an RFC 3339 time. A leap second is the one after it.

    Raises:
        ValueError: not such a time.
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
    """The RFC 3339 time in UTC, with whole seconds."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def duration_seconds(text: str) -> float:
    """Seconds of a Go duration such as `90s` or `1h30m`.

    Raises:
        DurationError: not a duration.
    """
    return durations.nanoseconds(text) / 1e9


def format_duration(seconds: float) -> str:
    """How Go prints it, to the microsecond: `1h30m0s`, `1m12.5s`, `250ms`, `0s`."""
    return durations.shown(round(seconds * 1e6) * 1000)
