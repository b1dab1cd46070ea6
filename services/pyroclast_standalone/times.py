"""Converts times between the API's format and seconds since the epoch, and formats ages for tables."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_YEAR: Final = 365 * _DAY


def epoch(text: str | None) -> float | None:
    """Return the seconds since the epoch of an RFC 3339 time. None without a time."""
    return seconds_of(text) if text else None


def seconds_of(text: str) -> float:
    """Return the seconds since the epoch of a time in the API's format.

    Raises:
        ValueError: the text is not such a time.
    """
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


def _pair(whole: int, unit: str, rest: int, rest_unit: str) -> str:
    return f"{whole}{unit}{rest}{rest_unit}" if rest else f"{whole}{unit}"


def human_duration(seconds: float) -> str:
    """Return `seconds` as text: `119s`, `5m30s`, `2h59m`, `47h`, `7d23h`, `1y`.

    `<invalid>` for more than a second in the future.
    """
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 0:
        return "0s"
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    minutes = whole // _MINUTE
    if minutes < 10:
        return _pair(minutes, "m", whole % _MINUTE, "s")
    if minutes < 3 * 60:
        return f"{minutes}m"
    hours = whole // _HOUR
    if hours < 8:
        return _pair(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if hours < 8 * 24:
        return _pair(days, "d", hours % 24, "h")
    if whole < 2 * _YEAR:
        return f"{days}d"
    years = days // 365
    if whole < 8 * _YEAR:
        return _pair(years, "y", days % 365, "d")
    return f"{years}y"


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
