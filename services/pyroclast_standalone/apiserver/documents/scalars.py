"""Texts with a canonical form: quantities, times, durations."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from pyroclast.resources import quantity
from pyroclast.resources.go_text import go_quote

from .errors import Undecodable
from .values import Json

__all__ = ["canonical_amount", "canonical_duration", "canonical_quantity", "canonical_time"]

_RFC_3339: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:\d\d)")
_RFC_3339_MICRO: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)[.,](\d{6})(Z|[+-]\d\d:\d\d)")
_LAYOUT: Final = '"2006-01-02T15:04:05Z07:00"'
_MICRO_LAYOUT: Final = '"2006-01-02T15:04:05.000000Z07:00"'


@lru_cache(maxsize=4096)
def _quantity(text: str) -> str:
    try:
        return str(quantity.parse(text))
    except ValueError as error:
        raise Undecodable(str(error)) from None


def canonical_quantity(value: Json) -> str:
    """The canonical text of a quantity, given as text or number.

    Raises:
        Undecodable: no quantity.
    """
    if value.__class__ is str:
        return _quantity(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Undecodable("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")
    return _quantity(str(value))


def canonical_amount(value: Json) -> str:
    """The canonical text of an amount of a resource, which has no parts smaller than thousandths: they are rounded up.

    Raises:
        Undecodable: no quantity.
    """
    return _amount(value if value.__class__ is str else canonical_quantity(value))


@lru_cache(maxsize=4096)
def _amount(text: str) -> str:
    text = _quantity(text)
    if text[-1] not in "un" and "e-" not in text:
        return text
    found = quantity.parse(text)
    return str(quantity.from_millis(found.millis, found.format))


@lru_cache(maxsize=1024)
def canonical_time(text: str, *, micro: bool = False) -> str | None:
    """The RFC 3339 time `text` in UTC, in whole seconds or, with `micro`, in microseconds; None for the zero time.

    Raises:
        Undecodable: no time.
    """
    layout = _MICRO_LAYOUT if micro else _LAYOUT
    found = (_RFC_3339_MICRO if micro else _RFC_3339).fullmatch(text)
    if found is None:
        rest, due = _first_failure(text, _MICRO_PIECES if micro else _PIECES)
        raise Undecodable(f"parsing time {go_quote(text)} as {layout}: cannot parse {go_quote(rest)} as {go_quote(due)}")
    try:
        moment = datetime.fromisoformat(f"{text[:19]}{found[8]}").astimezone(UTC)
    except (ValueError, OverflowError):
        raise Undecodable(f"parsing time {go_quote(text)}: {_out_of_range(found)} out of range") from None
    if moment.year == 1:
        return None
    if not micro:
        return f"{moment:%Y-%m-%dT%H:%M:%S}Z".rjust(20, "0")
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{found[7]}Z".rjust(27, "0")


_PIECES: Final = (
    ("2006", r"\d{4}"),
    ("-", "-"),
    ("01", r"\d\d"),
    ("-", "-"),
    ("02", r"\d\d"),
    ("T", "T"),
    ("15", r"\d\d"),
    (":", ":"),
    ("04", r"\d\d"),
    (":", ":"),
    ("05", r"\d\d(?:[.,]\d+)?"),
    ("Z07:00", r"Z|[+-]\d\d:\d\d"),
)
_MICRO_PIECES: Final = (*_PIECES[:-2], ("05", r"\d\d"), (".000000", r"[.,]\d{6}"), _PIECES[-1])


def _first_failure(text: str, pieces: tuple[tuple[str, str], ...]) -> tuple[str, str]:
    """The rest of `text` that does not parse, and the piece of the layout that was due."""
    rest = text
    for name, pattern in pieces:
        found = re.match(pattern, rest)
        if found is None:
            return rest, name
        rest = rest[found.end() :]
    return rest, ""


def _out_of_range(found: re.Match[str]) -> str:
    if not 1 <= int(found[2]) <= 12:
        return "month"
    for group, limit, word in ((4, 23, "hour"), (5, 59, "minute"), (6, 59, "second")):
        if int(found[group]) > limit:
            return word
    return "day"


_DURATION: Final = re.compile(r"[-+]?(?:0|(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)")
_PART: Final = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_UNITS: Final = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}


def canonical_duration(text: str) -> str:
    """A duration such as `90s` as the API writes it: `1m30s`.

    Raises:
        Undecodable: no duration.
    """
    if not _DURATION.fullmatch(text):
        raise Undecodable(f"time: invalid duration {go_quote(text)}")
    total = sum(round(float(number) * _UNITS[unit]) for number, unit in _PART.findall(text))
    sign = "-" if text.startswith("-") and total else ""
    seconds, nanos = divmod(total, 10**9)
    if not seconds:
        for unit, size in (("ms", 10**6), ("µs", 10**3), ("ns", 1)):
            if total >= size:
                return f"{sign}{total / size:g}{unit}"
        return "0s"
    hours, rest = divmod(seconds, 3600)
    minutes, whole = divmod(rest, 60)
    fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
    shown = f"{whole}{fraction}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{shown}"
    return f"{sign}{minutes}m{shown}" if minutes else f"{sign}{shown}"
