"""Resource amounts in JSON, as text or number; parsed texts are cached."""

from __future__ import annotations

from functools import lru_cache

from pyroclast.resources import quantity
from pyroclast.rules.values import Json

_CACHED = 8192


def amount(value: Json) -> quantity.Quantity | None:
    """Return the quantity of a JSON value; None when it is not a quantity."""
    if type(value) is str:
        return _read(value)
    return _read(str(value)) if type(value) is int else None


@lru_cache(_CACHED)
def _read(text: str) -> quantity.Quantity | None:
    try:
        return quantity.parse(text)
    except ValueError:
        return None
