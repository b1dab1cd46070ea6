"""Times and durations as the API writes them, as plain seconds.

Seconds since the epoch are what deadlines are worked out in; the API shows whole seconds in UTC, and durations as Go prints them.
"""

from __future__ import annotations

from datetime import UTC, datetime

from pyroclast.resources import durations

__all__ = ["duration_seconds", "format_duration", "format_time", "parse_time"]


def parse_time(text: str) -> float:
    """Seconds since the epoch of an RFC 3339 time.

    Raises:
        ValueError: not such a time.
    """
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


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
