"""Checks that lists of type set or map contain no item twice."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pyroclast.rules.errors import FieldError, duplicate, invalid
from pyroclast_standalone.apiserver.documents.values import Json, Object


def check_lists(value: Json, schema: Mapping[str, Json], path: str = "") -> list[FieldError]:
    """Return an error for each duplicate in `value` where `schema` requires distinct items."""
    if isinstance(value, dict):
        return _check_fields(value, schema, path)
    if isinstance(value, list):
        errors: list[FieldError] = []
        match schema.get("x-kubernetes-list-type"):
            case "set":
                errors += [duplicate(f"{path}[{index}]", value[index]) for index in _repeated(value)]
            case "map":
                errors += _check_map(value, list(schema.get("x-kubernetes-list-map-keys") or ()), path)
        items = schema.get("items")
        if isinstance(items, Mapping) and _is_nested(items):
            for index, item in enumerate(value):
                errors += check_lists(item, items, f"{path}[{index}]")
        return errors
    return []


def _is_nested(schema: Mapping[str, Json]) -> bool:
    return bool(schema.get("properties") or schema.get("additionalProperties") or schema.get("items"))


def _check_fields(value: Object, schema: Mapping[str, Json], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    extra = schema.get("additionalProperties")
    properties = schema.get("properties") or {}
    for name, child in value.items():
        if child.__class__ is not dict and child.__class__ is not list:
            continue
        if name in properties:
            errors += check_lists(child, properties[name], f"{path}.{name}" if path else name)
        elif isinstance(extra, Mapping):
            errors += check_lists(child, extra, f"{path}[{name}]")
    return errors


def _repeated(values: list[Json]) -> list[int]:
    """Return the index of each second occurrence of a value."""
    if len(values) <= 1:
        return []
    seen: dict[str, int] = {}
    found: list[int] = []
    for index, value in enumerate(values):
        key = json.dumps(value, sort_keys=True)
        seen[key] = seen.get(key, 0) + 1
        if seen[key] == 2:
            found.append(index)
    return found


def _check_map(values: list[Json], keys: list[str], path: str) -> list[FieldError]:
    for index, value in enumerate(values):
        if value is not None and not isinstance(value, dict):
            return [invalid(f"{path}[{index}]", value, "must be an object for an array of list-type map")]
    known = [{key: value[key] for key in keys if key in value} if value is not None else {} for value in values]
    return [duplicate(f"{path}[{index}]", known[index]) for index in _repeated(list(known))]
