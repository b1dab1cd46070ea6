"""Reading JSON without trusting it: each function gives the value when its type is right, else that type's empty value.

Types are the business of the schema, which the API server checks between mutation and validation and whose errors name
every field. Rules only must not stumble over a wrong one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

__all__ = ["EMPTY", "Json", "integer", "items", "mapping", "mappings", "optional_integer", "string_items", "text"]

Json: TypeAlias = Any
"""A value as it came out of JSON: object, list, text, number, boolean or None."""

EMPTY: Final[Mapping[str, Any]] = MappingProxyType({})


def mapping(value: Json) -> Mapping[str, Any]:
    """An object, or an empty one."""
    return value if type(value) is dict else EMPTY


def items(value: Json) -> list[Any]:
    """A list, or an empty one."""
    return value if type(value) is list else []


def mappings(value: Json) -> Iterable[tuple[int, Mapping[str, Any]]]:
    """Index and value of each item of a list; an item that is no object reads as an empty one."""
    if type(value) is not list:
        return ()
    for item in value:
        if type(item) is not dict:
            return enumerate([item if type(item) is dict else EMPTY for item in value])
    return enumerate(value)


def string_items(value: Json) -> list[str]:
    """The strings of a list."""
    return [item for item in value if type(item) is str] if type(value) is list else []


def text(value: Json) -> str:
    """A string, or an empty one."""
    return value if type(value) is str else ""


def integer(value: Json) -> int:
    """An integer, or 0."""
    return value if type(value) is int else 0


def optional_integer(value: Json) -> int | None:
    """An integer, or None."""
    return value if type(value) is int else None
