"""Converts times between the API's format and seconds since the epoch, and tells ages for tables."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

from pyroclast.views.readable import human_duration


def epoch(text: str | None) -> float | None:
    """Return the seconds since the epoch of an RFC 3339 time. None without a time."""
    return seconds_of(text) if text else None


def seconds_of(text: str) -> float:
    """Return the seconds since the epoch of a time in the API's format. Raises ValueError: the text is not such a time."""
    return datetime.fromisoformat(text).timestamp()


def rfc3339(seconds: float) -> str:
    """Return a time in the API's format, in whole seconds: `2026-01-02T15:04:05Z`."""
    return _whole(int(seconds))


@lru_cache(maxsize=64)
def _whole(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_rfc3339(seconds: float) -> str:
    """Return a time in the API's MicroTime format."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def nano_rfc3339(seconds: float) -> str:
    """Return the time of a log line, with nine fractional digits."""
    whole = int(seconds)
    return datetime.fromtimestamp(whole, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{int((seconds - whole) * 1e9):09d}Z"


def parse_time(text: object) -> float | None:
    """Return the seconds since the epoch of an RFC 3339 time. None when `text` is not a time."""
    if not isinstance(text, str) or not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def since(text: object, now: float) -> str:
    """Return the time from the RFC 3339 time `text` until `now` (seconds since the epoch). `<unknown>` without a time."""
    then = parse_time(text)
    return "<unknown>" if then is None else human_duration(now - then)
