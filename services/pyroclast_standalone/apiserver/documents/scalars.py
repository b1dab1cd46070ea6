"""The canonical forms of quantities and times."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from pyroclast.resources import quantity
from pyroclast.resources.go_text import go_quote
from pyroclast_standalone.apiserver.documents.errors import Json, Undecodable

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
    """Return the canonical text of a quantity, which is given as text or number."""
    if value.__class__ is str:
        return _quantity(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Undecodable("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")
    return _quantity(str(value))


def canonical_amount(value: Json) -> str:
    """Return the canonical text of a resource amount. Parts smaller than a thousandth are rounded up."""
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
    """Return an RFC 3339 time in UTC, in whole seconds or with `micro` in microseconds. None for the zero time."""
    layout = _MICRO_LAYOUT if micro else _LAYOUT
    found = (_RFC_3339_MICRO if micro else _RFC_3339).fullmatch(text)
    if found is None:
        raise Undecodable(f"parsing time {go_quote(text)} as {layout}: cannot parse {go_quote(text)} as {go_quote('2006')}")
    try:
        moment = datetime.fromisoformat(f"{text[:19]}{found[8]}").astimezone(UTC)
    except (ValueError, OverflowError):
        raise Undecodable(f"parsing time {go_quote(text)}: there is no such time") from None
    if moment.year == 1:
        return None
    if not micro:
        return f"{moment:%Y-%m-%dT%H:%M:%S}Z".rjust(20, "0")
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{found[7]}Z".rjust(27, "0")
