"""Checks the schemas of CustomResourceDefinitions when they are stored: they must be structural and supported by this server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from pyroclast.resources.patterns import BadPattern, compile_pattern
from pyroclast.rules.errors import FieldError, forbidden, invalid, required, unsupported
from pyroclast_standalone.apiserver.documents.errors import Json
from pyroclast_standalone.apiserver.documents.schema_validation import NO_OLD, compile_schema

_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_REFUSED: Final = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_NAMING: Final = {"name", "generateName"}
_ONLY_NAMES: Final = "must not specify anything other than name and generateName, but metadata is implicitly specified"
_JUNCTIONS: Final = ("allOf", "anyOf", "oneOf")
_NOT_IN_JUNCTIONS: Final = {
    **dict.fromkeys(("type", "title", "description"), "must be empty to be structural"),
    **dict.fromkeys(("additionalProperties", "default"), "must be undefined to be structural"),
    "nullable": "must be false to be structural",
}
_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_MERGING: Final = (("list", "array", ("atomic", "set", "map")), ("map", "object", ("atomic", "granular")))


def _children(schema: Mapping[str, Json], path: str) -> Iterator[tuple[str, str, Mapping[str, Json]]]:
    """Yield the schemas of the parts, with their paths and places."""
    for name, inner in (schema.get("properties") or {}).items():
        yield f"{path}.properties[{name}]", "for specified object fields", inner
    for field, place in (("additionalProperties", "for specified object fields"), ("items", "for specified array items")):
        if isinstance(schema.get(field), Mapping):
            yield f"{path}.{field}", place, schema[field]


def _branches(schema: Mapping[str, Json], path: str) -> Iterator[tuple[str, Mapping[str, Json]]]:
    for junction in _JUNCTIONS:
        for index, inner in enumerate(schema.get(junction) or ()):
            yield f"{path}.{junction}[{index}]", inner
    if isinstance(schema.get("not"), Mapping):
        yield f"{path}.not", schema["not"]


def _check_merging(schema: Mapping[str, Json], path: str) -> list[FieldError]:
    """Check that the declared merge types of lists and maps are possible."""
    errors: list[FieldError] = []
    for field, wanted, known in _MERGING:
        name = f"x-kubernetes-{field}-type"
        kind = schema.get(name)
        if kind is not None and schema.get("type") != wanted:
            errors.append(invalid(f"{path}.type", schema.get("type", ""), f"must be {wanted} if {name} is specified"))
        if kind is not None and kind not in known:
            errors.append(unsupported(f"{path}.{name}", kind, known))
    keys, own = schema.get("x-kubernetes-list-map-keys") or [], f"{path}.x-kubernetes-list-map-keys"
    if schema.get("x-kubernetes-list-type") == "map":
        properties = (schema.get("items") or {}).get("properties") or {}
        if not keys:
            errors.append(required(own, "must not be empty if x-kubernetes-list-type is map"))
        elif any(key not in properties for key in keys):
            errors.append(invalid(own, keys, "entries must all be names of item properties"))
    return errors


def _check_own(schema: Mapping[str, Json], path: str) -> list[FieldError]:
    errors = [forbidden(f"{path}.{field}", f"{field} is not supported") for field in _REFUSED if schema.get(field)]
    if (kind := schema.get("type")) is not None and kind not in _TYPES:
        errors.append(unsupported(f"{path}.type", kind, _TYPES))
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        errors.append(forbidden(f"{path}.uniqueItems", text))
    if schema.get("properties") and schema.get("additionalProperties") not in (None, True):
        errors.append(forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive"))
    if pattern := schema.get("pattern"):
        try:
            compile_pattern(pattern)
        except BadPattern as error:
            errors.append(invalid(f"{path}.pattern", pattern, f"must be a valid regular expression, but isn't: {error}"))
    return [*errors, *_check_merging(schema, path)]


def _check_default(schema: Mapping[str, Json], path: str) -> list[FieldError]:
    found: list[FieldError] = []
    if "default" in schema:
        compile_schema(schema)(schema["default"], "", NO_OLD, found)
    return [
        FieldError(f"{path}.default.{error.path}" if error.path else f"{path}.default", error.type, error.detail, error.value)
        for error in found
    ]


def _check_junction(schema: Mapping[str, Json], path: str, *, is_int_or_string: bool) -> list[FieldError]:
    """Check that a branch of a junction only restricts what is declared beside the junction."""
    return [
        forbidden(f"{path}.{field}", text)
        for field, text in _NOT_IN_JUNCTIONS.items()
        if schema.get(field) and not (field == "type" and is_int_or_string)
    ]


def _check_structure(schema: Mapping[str, Json], path: str, place: str) -> list[FieldError]:
    """Check that `schema` declares the type of every value."""
    kind, whole = schema.get("type"), bool(schema.get("x-kubernetes-int-or-string"))
    errors: list[FieldError] = []
    if not kind and not whole and not schema.get("x-kubernetes-preserve-unknown-fields"):
        errors.append(required(f"{path}.type", f"must not be empty {place}"))
    if place == "at the root" and kind and kind != "object":
        errors.append(invalid(f"{path}.type", kind, "must be object at the root"))
    if place == "at the root" and set((schema.get("properties") or {}).get("metadata", {}).get("properties") or ()) - _NAMING:
        errors.append(forbidden(f"{path}.properties[metadata]", _ONLY_NAMES))
    if place == "at the root" and isinstance(schema.get("additionalProperties"), Mapping):
        errors.append(forbidden(f"{path}.additionalProperties", "must not be used at the root"))
    if kind == "array" and not isinstance(schema.get("items"), Mapping):
        errors.append(required(f"{path}.items", "must be specified"))
    for own, where, inner in _children(schema, path):
        errors += _check_structure(inner, own, where)
    for own, inner in _branches(schema, path):
        is_known = whole and (schema.get("anyOf") == _INT_OR_STRING or own.startswith(f"{path}.allOf[0]"))
        errors += [] if is_known else _check_junction(inner, own, is_int_or_string=whole)
    return errors


def _check_parts(schema: Mapping[str, Json], path: str) -> list[FieldError]:
    errors = _check_own(schema, path)
    for own, inner in [*((own, inner) for own, _, inner in _children(schema, path)), *_branches(schema, path)]:
        errors += _check_parts(inner, own)
    return errors


def _check_defaults(schema: Mapping[str, Json], path: str) -> list[FieldError]:
    return [*_check_default(schema, path), *(e for own, _, inner in _children(schema, path) for e in _check_defaults(inner, own))]


def check_schema(schema: Mapping[str, Json], path: str) -> list[FieldError]:
    """Return the faults of an `openAPIV3Schema` at `path`: structure, unknown types, invalid patterns, and invalid defaults."""
    errors = [*_check_structure(schema, path, "at the root"), *_check_parts(schema, path)]
    return errors or _check_defaults(schema, path)
