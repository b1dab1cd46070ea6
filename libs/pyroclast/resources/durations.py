"""Durations in the form of Go (`90s`, `1h30m`), in nanoseconds; parsed with Go's error messages, and printed like Go does."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from pyroclast.resources.go_text import go_quote

_UNITS: Final = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_TERM: Final = re.compile(r"([0-9]*)(\.[0-9]*)?([^0-9.]*)")
_LIMIT: Final = 1 << 63


class DurationError(ValueError):
    """The text is not a duration; the message is Go's."""


def nanoseconds(text: str) -> int:
    """Return the duration `text` in nanoseconds.

    Raises DurationError: The text is not a duration, or is longer than 292 years.
    """
    rest = text[1:] if text[:1] in {"-", "+"} else text
    if rest == "0":
        return 0
    total = Fraction(0)
    if not rest:
        raise DurationError(f"time: invalid duration {go_quote(text)}")
    while rest:
        match = _TERM.match(rest)
        if match is None or not (match[1] or (match[2] or "").lstrip(".")):
            raise DurationError(f"time: invalid duration {go_quote(text)}")
        number, fraction, unit = match[1] or "0", (match[2] or "").lstrip("."), match[3]
        if not unit:
            raise DurationError(f"time: missing unit in duration {go_quote(text)}")
        if unit not in _UNITS:
            raise DurationError(f"time: unknown unit {go_quote(unit)} in duration {go_quote(text)}")
        if len(number) > 20 or len(fraction) > 40:
            raise DurationError(f"time: invalid duration {go_quote(text)}")
        total += (int(number) + Fraction(int(fraction or "0"), 10 ** len(fraction))) * _UNITS[unit]
        rest = rest[match.end() :]
    if total >= _LIMIT:
        raise DurationError(f"time: invalid duration {go_quote(text)}")
    return -int(total) if text[0] == "-" else int(total)


def seconds(text: str) -> float | None:
    """Return a duration in seconds; None if it is malformed."""
    try:
        return nanoseconds(text) / 1e9
    except DurationError:
        return None


def shown(duration: int) -> str:
    """Return `duration` nanoseconds in the form of Go: `1h30m0s`, `1m12.5s`, `250ms`, `0s`."""
    sign, left = ("-", -duration) if duration < 0 else ("", duration)
    for unit, suffix in ((1, "ns"), (10**3, "µs"), (10**6, "ms")):
        if 0 < left < 1000 * unit:
            return f"{sign}{_decimal(left, unit)}{suffix}"
    minutes, left = divmod(left, _UNITS["m"])
    hours, minutes = divmod(minutes, 60)
    seconds = f"{_decimal(left, 10**9)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}"
    return f"{sign}{minutes}m{seconds}" if minutes else f"{sign}{seconds}"


def _decimal(number: int, unit: int) -> str:
    """Return `number / unit` exactly, without trailing zeros."""
    whole, rest = divmod(number, unit)
    return f"{whole}.{rest:0{len(str(unit)) - 1}d}".rstrip("0") if rest else str(whole)
