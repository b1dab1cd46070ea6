"""Times and durations as the API writes them, as plain seconds.

Seconds since the epoch are what deadlines are worked out in; the API shows whole seconds in UTC, and durations as Go prints them.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

__all__ = ["duration_seconds", "format_duration", "format_time", "parse_time"]

_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_TERM: Final = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")


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
        ValueError: not a duration.
    """
    sign, body = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if body == "0":
        return 0.0
    terms = list(_TERM.finditer(body))
    if not terms or sum(len(term[0]) for term in terms) != len(body):
        raise ValueError(f"{text!r} is not a duration such as 15s or 1h30m")
    return sign * sum(float(term[1]) * _UNITS[term[2]] for term in terms)


def format_duration(seconds: float) -> str:
    """How Go prints it, to the microsecond: `1h30m0s`, `1m12.5s`, `250ms`, `0s`."""
    micros = round(seconds * 1e6)
    sign, micros = ("-", -micros) if micros < 0 else ("", micros)
    if micros == 0:
        return "0s"
    if micros < 1_000_000:
        return f"{sign}{_decimal(micros, 1)}µs" if micros < 1000 else f"{sign}{_decimal(micros, 1000)}ms"
    minutes, micros = divmod(micros, 60_000_000)
    hours, minutes = divmod(minutes, 60)
    rest = f"{_decimal(micros, 1_000_000)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{rest}"
    return f"{sign}{minutes}m{rest}" if minutes else f"{sign}{rest}"


def _decimal(number: int, unit: int) -> str:
    whole, rest = divmod(number, unit)
    return f"{whole}.{rest:0{len(str(unit)) - 1}d}".rstrip("0") if rest else str(whole)
