"""Paths to fields of custom resources (`.spec.x`, `.spec['x']`), looked up in a schema."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from .values import Json

__all__ = ["BadFieldPath", "find_field"]

_PART: Final = re.compile(r"'(?:\\.|[^'\\])*'|[.\[\]]|[^.\[\]]+", re.DOTALL)


class BadFieldPath(Exception):
    """The path cannot be read, or leads nowhere."""


def find_field(path: str, schema: Mapping[str, Json], *, brackets: bool = True) -> Mapping[str, Json]:
    """The schema of the field at `path` below `schema`; `brackets` may name fields too where they are allowed.

    Raises:
        BadFieldPath: in the API's words.
    """
    parts = iter(_PART.findall(path))
    for part in parts:
        if part == ".":
            schema = _below(schema, _next(parts))
        elif part == "[":
            if not brackets:
                raise BadFieldPath("array notation is not allowed")
            name = _next(parts)
            if len(name) < 2 or name[0] != "'" or name[-1] != "'":
                raise BadFieldPath(f"expected single quoted string but got {name}")
            schema = _below(schema, re.sub(r"\\(.)", r"\1", name[1:-1]))
            if (end := _next(parts)) != "]":
                raise BadFieldPath(f"expected ] but got {end}")
        else:
            raise BadFieldPath(f"expected [ or . but got: {part}")
    return schema


def _next(parts: Iterator[str]) -> str:
    part = next(parts, None)
    if part is None:
        raise BadFieldPath("unexpected end of JSON path")
    return part


def _below(schema: Mapping[str, Json], name: str) -> Mapping[str, Json]:
    properties, extra = schema.get("properties"), schema.get("additionalProperties")
    inner = properties.get(name) if properties else extra if isinstance(extra, Mapping) else None
    if inner is None:
        raise BadFieldPath("does not refer to a valid field")
    below: Mapping[str, Json] = inner
    return below
