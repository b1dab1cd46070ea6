"""Durations as Go writes them: `15s`, `1h30m`, `250ms`."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Final

from pydantic import BeforeValidator, PlainSerializer

__all__ = ["Duration", "format_duration", "parse_duration"]

_MICROSECONDS: Final = {
    "ns": 0.001,
    "us": 1.0,
    "µs": 1.0,
    "μs": 1.0,
    "ms": 1e3,
    "s": 1e6,
    "m": 60e6,
    "h": 3600e6,
}
_TERM: Final = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_HINT: Final = "a duration such as 500ms, 15s or 1h30m"


def parse_duration(text: str) -> timedelta:
    """The duration that `text` means; a bare `0` needs no unit.

    Raises:
        ValueError: not a duration, or one that does not fit.
    """
    sign, body = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if body == "0":
        return timedelta()
    terms = list(_TERM.finditer(body))
    if not terms or sum(len(term[0]) for term in terms) != len(body):
        raise ValueError(f'"{text}" is not {_HINT}')
    try:
        return sign * timedelta(microseconds=sum(float(term[1]) * _MICROSECONDS[term[2]] for term in terms))
    except OverflowError:
        raise ValueError(f'"{text}" is longer than can be counted') from None


def format_duration(duration: timedelta) -> str:
    """How Go prints it: `1h30m0s`, `15s`, `250ms`, `0s`."""
    micros = duration // timedelta(microseconds=1)
    sign, micros = ("-", -micros) if micros < 0 else ("", micros)
    if micros < 1_000_000:
        if micros == 0:
            return "0s"
        return f"{sign}{_decimal(micros, 1)}µs" if micros < 1000 else f"{sign}{_decimal(micros, 1000)}ms"
    minutes, micros = divmod(micros, 60_000_000)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{_decimal(micros, 1_000_000)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}"
    return f"{sign}{minutes}m{seconds}" if minutes else f"{sign}{seconds}"


def _decimal(number: int, unit: int) -> str:
    """`number / unit` without trailing zeros, exactly."""
    whole, rest = divmod(number, unit)
    return f"{whole}.{rest:0{len(str(unit)) - 1}d}".rstrip("0") if rest else str(whole)


def _from_wire(value: object) -> object:
    if isinstance(value, str):
        return parse_duration(value)
    if isinstance(value, timedelta):
        return value
    if value == 0 and not isinstance(value, bool):
        return timedelta()
    raise ValueError(f"{value!r} is not {_HINT}")


Duration = Annotated[timedelta, BeforeValidator(_from_wire), PlainSerializer(format_duration, return_type=str)]
"""A field of settings or of a kind: read and written as Go writes durations."""
