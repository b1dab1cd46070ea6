"""Reads JSON of unknown types: each function returns the value when its type is right, else the empty value of that type.

The API server reports wrong types by the schema, so rules only have to tolerate them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from pyroclast.resources import quantity

Json: TypeAlias = Any
"""A decoded JSON value: object, list, text, number, boolean or None."""

EMPTY: Final[Mapping[str, Any]] = MappingProxyType({})


def mapping(value: Json) -> Mapping[str, Any]:
    """Return an object; an empty one when `value` is not an object."""
    return value if type(value) is dict else EMPTY


def items(value: Json) -> list[Any]:
    """Return a list; an empty one when `value` is not a list."""
    return value if type(value) is list else []


def mappings(value: Json) -> Iterable[tuple[int, Mapping[str, Any]]]:
    """Return index and value of each item of a list; an item that is not an object is returned as an empty object."""
    if type(value) is not list:
        return ()
    for item in value:
        if type(item) is not dict:
            return enumerate([item if type(item) is dict else EMPTY for item in value])
    return enumerate(value)


def string_items(value: Json) -> list[str]:
    """Return the strings in a list."""
    return [item for item in value if type(item) is str] if type(value) is list else []


def text(value: Json) -> str:
    """Return a string; an empty one when `value` is not a string."""
    return value if type(value) is str else ""


def integer(value: Json) -> int:
    """Return an integer; 0 when `value` is not an integer."""
    return value if type(value) is int else 0


def optional_integer(value: Json) -> int | None:
    """Return an integer; None when `value` is not an integer."""
    return value if type(value) is int else None


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
