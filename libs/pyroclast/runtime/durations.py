"""A pydantic field for a duration in the form of Go: `15s`, `1h30m`, `250ms`."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Final

from pydantic import BeforeValidator, PlainSerializer

from pyroclast.resources import durations

_HINT: Final = "a duration such as 500ms, 15s or 1h30m"


def parse_duration(text: str) -> timedelta:
    """Return the duration, to the microsecond; a bare `0` needs no unit.

    Raises:
        ValueError: `text` is not a duration, or is longer than 292 years.
    """
    try:
        return timedelta(microseconds=durations.nanoseconds(text) / 1000)
    except durations.DurationError:
        raise ValueError(f'"{text}" is not {_HINT}') from None


def format_duration(duration: timedelta) -> str:
    """Return the duration as Go prints it: `1h30m0s`, `15s`, `250ms`, `0s`."""
    return durations.shown(duration // timedelta(microseconds=1) * 1000)


def _from_wire(value: object) -> object:
    if isinstance(value, str):
        return parse_duration(value)
    if isinstance(value, timedelta):
        return value
    if value == 0 and not isinstance(value, bool):
        return timedelta()
    raise ValueError(f"{value!r} is not {_HINT}")


Duration = Annotated[timedelta, BeforeValidator(_from_wire), PlainSerializer(format_duration, return_type=str)]
"""A field of settings or of a kind, read and written as Go writes durations."""
