"""Schemas of custom resource definitions, checked when they are stored: structural, and nothing in them that cannot work."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Final

from .errors import FieldError, forbidden, invalid, required, unsupported
from .patterns import BadPattern, compile_pattern
from .schema_validation import NO_OLD, compile_schema
from .values import Json

__all__ = ["check_schema"]

_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_REFUSED: Final = {
    "id": "id is not supported",
    "additionalItems": "additionalItems is not supported",
    "patternProperties": "patternProperties is not supported",
    "definitions": "definitions is not supported",
    "dependencies": "dependencies is not supported",
    "$ref": "$ref is not supported",
}
_JUNCTIONS: Final = ("allOf", "anyOf", "oneOf")
_NOT_IN_JUNCTIONS: Final = {
    "type": "must be empty to be structural",
    "additionalProperties": "must be undefined to be structural",
    "default": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    "x-kubernetes-preserve-unknown-fields": "must be false to be structural",
    "x-kubernetes-embedded-resource": "must be false to be structural",
    "x-kubernetes-int-or-string": "must be false to be structural",
    "x-kubernetes-list-map-keys": "must be empty to be structural",
    "x-kubernetes-list-type": "must be undefined to be structural",
    "x-kubernetes-map-type": "must be undefined to be structural",
    "x-kubernetes-validations": "must be empty to be structural",
}
_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]


def _check_type(schema: Mapping[str, Json], path: str, place: str) -> list[FieldError]:
    kind = schema.get("type")
    free = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    errors: list[FieldError] = []
    if kind is not None and kind not in _TYPES:
        errors.append(unsupported(f"{path}.type", kind, _TYPES))
    if schema.get("x-kubernetes-embedded-resource") and kind != "object":
        text = "must be object if x-kubernetes-embedded-resource is true"
        errors.append(invalid(f"{path}.type", kind, text) if kind else required(f"{path}.type", text))
    elif not kind and not free:
        where = {"root": "at the root", "items": "for specified array items"}.get(place, "for specified object fields")
        errors.append(required(f"{path}.type", f"must not be empty {where}"))
    if place == "root" and kind and kind != "object":
        errors.append(invalid(f"{path}.type", kind, "must be object at the root"))
    return errors


def _check_list(schema: Mapping[str, Json], path: str) -> list[FieldError]:
    kind, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys") or []
    errors: list[FieldError] = []
    if schema.get("type") == "array" and not isinstance(schema.get("items"), Mapping):
        errors.append(required(f"{path}.items", "must be specified"))
    if kind is None:
        if keys:
            text = "must be map if x-kubernetes-list-map-keys is non-empty"
            errors.append(required(f"{path}.x-kubernetes-list-type", text))
        return errors
    if schema.get("type") != "array":
        text = "must be array if x-kubernetes-list-type is specified"
        own = f"{path}.type"
        errors.append(invalid(own, schema["type"], text) if schema.get("type") else required(own, text))
    if kind not in {"atomic", "set", "map"}:
        errors.append(unsupported(f"{path}.x-kubernetes-list-type", kind, ["atomic", "set", "map"]))
    if kind != "map" and keys:
        text = "must be map if x-kubernetes-list-map-keys is non-empty"
        errors.append(invalid(f"{path}.x-kubernetes-list-type", kind, text))
    return [*errors, *(_check_map_keys(schema, keys, path) if kind == "map" else ())]


def _check_map_keys(schema: Mapping[str, Json], keys: list[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not keys:
        errors.append(required(f"{path}.x-kubernetes-list-map-keys", "must not be empty if x-kubernetes-list-type is map"))
    items = schema.get("items")
    if not isinstance(items, Mapping):
        return [*errors, required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")]
    if items.get("type") != "object":
        text = "must be object if parent array's x-kubernetes-list-type is map"
        return [*errors, invalid(f"{path}.items.type", items.get("type", ""), text)]
    properties = items.get("properties") or {}
    for key in keys:
        if key not in properties:
            text = "entries must all be names of item properties"
            errors.append(invalid(f"{path}.x-kubernetes-list-map-keys", keys, text))
            continue
        own = f"{path}.items.properties[{key}]"
        if properties[key].get("type") in {"array", "object"}:
            text = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            errors.append(invalid(f"{own}.type", items.get("type", ""), text))
        if "default" not in properties[key] and key not in (items.get("required") or ()):
            text = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            errors.append(required(f"{own}.default", text))
    if len(set(keys)) < len(keys):
        errors.append(invalid(f"{path}.x-kubernetes-list-map-keys", keys, "must not contain duplicate entries"))
    return errors


def _check_map(schema: Mapping[str, Json], path: str) -> list[FieldError]:
    kind = schema.get("x-kubernetes-map-type")
    if kind is None:
        return []
    errors: list[FieldError] = []
    if schema.get("type") != "object":
        text = "must be object if x-kubernetes-map-type is specified"
        own = f"{path}.type"
        errors.append(invalid(own, schema["type"], text) if schema.get("type") else required(own, text))
    if kind not in {"atomic", "granular"}:
        errors.append(unsupported(f"{path}.x-kubernetes-map-type", kind, ["atomic", "granular"]))
    return errors


def _check_own(schema: Mapping[str, Json], path: str) -> list[FieldError]:
    errors = [forbidden(f"{path}.{field}", text) for field, text in _REFUSED.items() if schema.get(field)]
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        errors.append(forbidden(f"{path}.uniqueItems", text))
    if schema.get("properties") and schema.get("additionalProperties") not in (None, True):
        errors.append(forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive"))
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        errors.append(invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined"))
    if pattern := schema.get("pattern"):
        try:
            compile_pattern(pattern)
        except BadPattern as error:
            text = f"must be a valid regular expression, but isn't: {error}"
            errors.append(invalid(f"{path}.pattern", pattern, text))
    return errors


def _check_default(schema: Mapping[str, Json], path: str) -> list[FieldError]:
    if "default" not in schema:
        return []
    found: list[FieldError] = []
    value = copy.deepcopy(schema["default"])
    compile_schema(schema)(value, "", NO_OLD, found)
    errors = []
    for error in found:
        own = error.path if error.path == "<nil>" else f"{path}.default.{error.path}" if error.path else f"{path}.default"
        errors.append(FieldError(own, error.type, error.detail, error.value))
    return errors


def _check_junction(schema: Mapping[str, Json], path: str, *, is_int_or_string: bool) -> list[FieldError]:
    """A branch of a junction may only restrict what stands beside the junction."""
    errors = [
        forbidden(f"{path}.{field}", text)
        for field, text in _NOT_IN_JUNCTIONS.items()
        if schema.get(field) and not (field == "type" and is_int_or_string)
    ]
    for name, inner in (schema.get("properties") or {}).items():
        errors += _check_junction(inner, f"{path}.properties[{name}]", is_int_or_string=False)
    if isinstance(schema.get("items"), Mapping):
        errors += _check_junction(schema["items"], f"{path}.items", is_int_or_string=False)
    for own, inner in _branches(schema, path):
        errors += _check_junction(inner, own, is_int_or_string=False)
    return errors


def _branches(schema: Mapping[str, Json], path: str) -> Iterator[tuple[str, Mapping[str, Json]]]:
    for junction in _JUNCTIONS:
        for index, inner in enumerate(schema.get(junction) or ()):
            yield f"{path}.{junction}[{index}]", inner
    if isinstance(schema.get("not"), Mapping):
        yield f"{path}.not", schema["not"]


def _check_nested(schema: Mapping[str, Json], path: str, place: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, inner in (schema.get("properties") or {}).items():
        if place == "root" and name == "metadata":
            errors += _check_metadata(inner, f"{path}.properties[metadata]")
        else:
            errors += _check(inner, f"{path}.properties[{name}]", "field")
    extra, items = schema.get("additionalProperties"), schema.get("items")
    if isinstance(extra, Mapping):
        errors += _check(extra, f"{path}.additionalProperties", "field")
    if isinstance(items, Mapping):
        errors += _check(items, f"{path}.items", "items")
    whole = bool(schema.get("x-kubernetes-int-or-string"))
    for own, inner in _branches(schema, path):
        is_known = whole and (schema.get("anyOf") == _INT_OR_STRING or own.startswith(f"{path}.allOf[0]"))
        errors += [] if is_known else _check_junction(inner, own, is_int_or_string=whole)
    return errors


def _check_metadata(schema: Mapping[str, Json], path: str) -> list[FieldError]:
    errors = []
    if schema.get("type") != "object":
        errors.append(invalid(f"{path}.type", schema.get("type", ""), "must be object"))
    if set(schema.get("properties") or ()) - {"name", "generateName"}:
        text = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        errors.append(forbidden(path, text))
    return errors


def _check(schema: Mapping[str, Json], path: str, place: str) -> list[FieldError]:
    errors = _check_own(schema, path)
    errors += _check_map(schema, path)
    errors += _check_list(schema, path)
    errors += _check_type(schema, path, place)
    if place == "root" and schema.get("additionalProperties"):
        errors.append(forbidden(f"{path}.additionalProperties", "must not be used at the root"))
    if place == "root" and schema.get("nullable"):
        errors.append(forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    errors += _check_nested(schema, path, place)
    if not errors:
        errors += _check_default(schema, path)
    return errors


def check_schema(schema: Mapping[str, Json], path: str) -> list[FieldError]:
    """What is wrong with an `openAPIV3Schema` at `path`: not structural, unknown types, bad patterns, unfit defaults."""
    return _check(schema, path, "root")
