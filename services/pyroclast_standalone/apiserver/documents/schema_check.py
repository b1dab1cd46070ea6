"""Schemas of custom resource definitions, checked when they are stored: structural, and nothing in them that cannot work."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Final

from .errors import FieldError, forbidden, invalid, required, unsupported
from .patterns import BadPattern, compile_pattern
from .schema_validation import NO_OLD, compile_schema
from .structural import unknown_fields
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
_AT_ROOT: Final = {
    "description": "Description",
    "type": "Type",
    "format": "Format",
    "title": "Title",
    "maximum": "Maximum",
    "exclusiveMaximum": "ExclusiveMaximum",
    "minimum": "Minimum",
    "exclusiveMinimum": "ExclusiveMinimum",
    "maxLength": "MaxLength",
    "minLength": "MinLength",
    "pattern": "Pattern",
    "maxItems": "MaxItems",
    "minItems": "MinItems",
    "uniqueItems": "UniqueItems",
    "multipleOf": "MultipleOf",
    "required": "Required",
    "items": "Items",
    "properties": "Properties",
    "externalDocs": "ExternalDocs",
    "example": "Example",
    "x-kubernetes-preserve-unknown-fields": "XPreserveUnknownFields",
    "x-kubernetes-validations": "XValidations",
}
"""What may stand at the root of a schema beside a status subresource, with the names of the API's own."""
_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]


def _check_type(schema: Mapping[str, Json], path: str, place: str) -> list[FieldError]:
    kind = schema.get("type")
    free = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    errors: list[FieldError] = []
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
    if kind in {"set", "map"} and isinstance(schema.get("items"), Mapping) and schema["items"].get("nullable"):
        errors.append(forbidden(f"{path}.items.nullable", f"cannot be nullable when x-kubernetes-list-type is {kind}"))
    if kind == "set" and schema.get("type") == "array" and isinstance(schema.get("items"), Mapping):
        errors += _check_set_items(schema["items"], f"{path}.items")
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
    for index, key in enumerate(keys):
        if key in keys[:index]:
            errors.append(invalid(f"{path}.x-kubernetes-list-map-keys", keys, "must not contain duplicate entries"))
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
        if properties[key].get("nullable"):
            text = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
            errors.append(forbidden(f"{own}.nullable", text))
    return errors


def _check_set_items(items: Mapping[str, Json], path: str) -> list[FieldError]:
    """The items of a set are compared as a whole."""
    text = "must be atomic as item of a list with x-kubernetes-list-type=set"
    list_type = items.get("x-kubernetes-list-type")
    if items.get("type") == "array" and list_type not in {None, "atomic"}:
        return [invalid(f"{path}.x-kubernetes-list-type", list_type, text)]
    if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        return [invalid(f"{path}.x-kubernetes-map-type", list_type, text)]
    return []


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
    if (kind := schema.get("type")) is not None and kind not in _TYPES:
        errors.append(unsupported(f"{path}.type", kind, _TYPES))
    if kind == "null":
        errors.append(forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative"))
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        errors.append(forbidden(f"{path}.uniqueItems", text))
    if schema.get("properties") and schema.get("additionalProperties") not in (None, True):
        errors.append(forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive"))
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        errors.append(invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined"))
    return errors


def _check_pattern(schema: Mapping[str, Json], path: str) -> list[FieldError]:
    if pattern := schema.get("pattern"):
        try:
            compile_pattern(pattern)
        except BadPattern as error:
            return [invalid(f"{path}.pattern", pattern, f"must be a valid regular expression, but isn't: {error}")]
    return []


def _check_extensions(schema: Mapping[str, Json], path: str) -> list[FieldError]:
    """Whether the extensions of Kubernetes go together."""
    keeps, embeds = "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"
    errors: list[FieldError] = []
    if schema.get("x-kubernetes-int-or-string"):
        text = "must be false if x-kubernetes-int-or-string is true"
        errors += [invalid(f"{path}.{field}", True, text) for field in (keeps, embeds) if schema.get(field)]
    if schema.get(embeds):
        if schema.get("additionalProperties"):
            errors.append(forbidden(f"{path}.additionalProperties", f"must not be used if {embeds} is set"))
        if not schema.get(keeps) and not schema.get("properties"):
            errors.append(required(f"{path}.properties", f"must not be empty if {embeds} is true without {keeps}"))
    return errors


def _check_default(schema: Mapping[str, Json], path: str) -> list[FieldError]:
    if "default" not in schema:
        return []
    found: list[FieldError] = []
    value = copy.deepcopy(schema["default"])
    compile_schema(schema)(value, "", NO_OLD, found)
    errors = []
    if unknown_fields(value, schema):
        shown = json.loads(json.dumps(value, sort_keys=True))
        errors.append(invalid(f"{path}.default", shown, "must not have unknown fields"))
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


def _children(schema: Mapping[str, Json], path: str) -> Iterator[tuple[str, str, Mapping[str, Json]]]:
    """The schemas of parts, with their paths and places."""
    for name, inner in (schema.get("properties") or {}).items():
        yield f"{path}.properties[{name}]", "field", inner
    for field, place in (("additionalProperties", "field"), ("items", "items")):
        if isinstance(schema.get(field), Mapping):
            yield f"{path}.{field}", place, schema[field]


def _check_nested(schema: Mapping[str, Json], path: str, place: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for own, where, inner in _children(schema, path):
        if place == "root" and own == f"{path}.properties[metadata]":
            errors += _check_metadata(inner, own)
        else:
            errors += _check_structure(inner, own, where)
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


def _check_structure(schema: Mapping[str, Json], path: str, place: str) -> list[FieldError]:
    errors = [*_check_type(schema, path, place), *_check_pattern(schema, path), *_check_extensions(schema, path)]
    if schema.get("type") == "array" and not isinstance(schema.get("items"), Mapping):
        errors.append(required(f"{path}.items", "must be specified"))
    if place == "root" and schema.get("additionalProperties"):
        errors.append(forbidden(f"{path}.additionalProperties", "must not be used at the root"))
    if place == "root" or schema.get("x-kubernetes-embedded-resource"):
        errors += _check_identity(schema.get("properties") or {}, f"{path}.properties")
    return errors + _check_nested(schema, path, place)


def _check_identity(properties: Mapping[str, Mapping[str, Json]], path: str) -> list[FieldError]:
    return [
        invalid(f"{path}[{name}].type", kind, "must be string")
        for name in ("kind", "apiVersion")
        if name in properties and (kind := properties[name].get("type", "")) != "string"
    ]


def _check_defaults(schema: Mapping[str, Json], path: str) -> list[FieldError]:
    errors = _check_default(schema, path)
    for own, _, inner in _children(schema, path):
        errors += _check_defaults(inner, own)
    return errors


def _check_parts(schema: Mapping[str, Json], path: str) -> list[FieldError]:
    errors = [*_check_own(schema, path), *_check_map(schema, path), *_check_list(schema, path)]
    for own, inner in [*((own, inner) for own, _, inner in _children(schema, path)), *_branches(schema, path)]:
        errors += _check_parts(inner, own)
    return errors


def _has_refused(schema: Mapping[str, Json]) -> bool:
    """Whether a field is in it that no structural schema has: then its structure is not looked at."""
    parts = [*(inner for _, _, inner in _children(schema, "")), *(inner for _, inner in _branches(schema, ""))]
    return any(schema.get(field) for field in _REFUSED) or schema.get("type") == "null" or any(map(_has_refused, parts))


def _check_root(schema: Mapping[str, Json], path: str) -> list[FieldError]:
    """Whether a status can be checked by its own part of the schema: nothing at the root says more about it."""
    if (kind := schema.get("type")) and kind != "object":
        text = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        return [invalid(f"{path}.type", kind, text)]
    if all(name in _AT_ROOT or name == "nullable" for name, value in schema.items() if value):
        return []
    allowed = " ".join(_AT_ROOT.values())
    text = f"only [{allowed}] fields are allowed at the root of the schema if the status subresource is enabled"
    return [invalid(path, dict(schema), text)]


def check_schema(schema: Mapping[str, Json], path: str, *, has_status: bool = False) -> list[FieldError]:
    """What is wrong with an `openAPIV3Schema` at `path`: not structural, unknown types, bad patterns, unfit defaults."""
    errors: list[FieldError] = _check_root(schema, path) if has_status else []
    if schema.get("nullable"):
        errors.append(forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    if not _has_refused(schema):
        errors += _check_structure(schema, path, "root") or _check_defaults(schema, path)
    return errors + _check_parts(schema, path)
