"""Finds the schema of a field of a custom resource by its path (`.spec.x`)."""

from __future__ import annotations

from collections.abc import Mapping

from pyroclast_standalone.apiserver.documents.values import Json


class BadFieldPath(Exception):
    """The path has an unsupported form, or no such field exists."""


def find_field(path: str, schema: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return the schema of the field at `path` below `schema`.

    Raises:
        BadFieldPath: the path is invalid. The message is that of the API.
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
