"""Paths to fields of custom resources (`.spec.x`), looked up in a schema."""

from __future__ import annotations

from collections.abc import Mapping

from .values import Json

__all__ = ["BadFieldPath", "find_field"]


class BadFieldPath(Exception):
    """The path cannot be read here, or leads nowhere."""


def find_field(path: str, schema: Mapping[str, Json]) -> Mapping[str, Json]:
    """The schema of the field at `path` below `schema`.

    Raises:
        BadFieldPath: in the API's words.
    """
    if not path.startswith(".") or "[" in path:
        raise BadFieldPath("fields are named by dots here" if "[" in path else f"expected [ or . but got: {path}")
    for name in path[1:].split("."):
        properties, extra = schema.get("properties"), schema.get("additionalProperties")
        inner = properties.get(name) if properties else extra
        if not isinstance(inner, Mapping):
            raise BadFieldPath("does not refer to a valid field")
        schema = inner
    return schema
