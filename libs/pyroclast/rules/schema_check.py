"""Checks an object against the schema of its kind: unknown fields, types, required fields, allowed values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

Schema = Mapping[str, Any]
OPEN: Final = "x-kubernetes-preserve-unknown-fields"
NUMBER_OR_TEXT: Final = "x-kubernetes-int-or-string"
TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}
TOP: Final = frozenset({"apiVersion", "kind", "metadata"})


def schema_faults(document: Mapping[str, Any], schema: Schema) -> list[str]:
    """Return a sentence for each fault outside the metadata, with the path of its field."""
    properties = schema.get("properties") or {}
    found = [
        f"{name}: unknown field; fields here are {_listed(properties)}" for name in document if name not in {*properties, *TOP}
    ]
    for name, value in document.items():
        if name in properties and name not in TOP:
            found += _faults(value, properties[name], name)
    return found


def _faults(value: Any, schema: Schema, path: str) -> Iterator[str]:  # noqa: ANN401 - a JSON value
    if value is None:
        return  # the API server drops null
    if schema.get(NUMBER_OR_TEXT):
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            yield f"{path}: must be a number or a string, not {_kind_of(value)}"
        return
    wanted = schema.get("type", "")
    if wanted and (not isinstance(value, TYPES[wanted]) or (isinstance(value, bool) and wanted != "boolean")):
        yield f"{path}: must be {'an' if wanted[0] in 'aeiou' else 'a'} {wanted}, not {_kind_of(value)}"
        return
    yield from _value_faults(value, schema, path)
    if isinstance(value, dict):
        yield from _object_faults(value, schema, path)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _faults(each, schema.get("items") or {}, f"{path}[{index}]")


def _object_faults(value: Mapping[str, Any], schema: Schema, path: str) -> Iterator[str]:
    properties, others = schema.get("properties"), schema.get("additionalProperties")
    for name in schema.get("required") or ():
        if name not in value:
            yield f"{path}.{name}: required"
    for name, each in value.items():
        at = f"{path}.{name}"
        if properties and name in properties:
            yield from _faults(each, properties[name], at)
        elif isinstance(others, Mapping):
            yield from _faults(each, others, at)
        elif properties and not others and not schema.get(OPEN):
            yield f"{at}: unknown field; fields here are {_listed(properties)}"


def _value_faults(value: Any, schema: Schema, path: str) -> Iterator[str]:  # noqa: ANN401 - a JSON value
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value!r} is none of {', '.join(map(repr, schema['enum']))}"
    if "minimum" in schema and value < schema["minimum"]:
        yield f"{path}: {value} is less than {schema['minimum']}"
    if isinstance(value, str):
        if "maxLength" in schema and len(value) > schema["maxLength"]:
            yield f"{path}: longer than {schema['maxLength']} characters"
        if len(value) < schema.get("minLength", 0):
            yield f"{path}: shorter than {schema['minLength']} characters"
        if "pattern" in schema and not re.search(schema["pattern"], value):
            yield f"{path}: {value!r} does not match {schema['pattern']}"
    if isinstance(value, list) and len(value) < schema.get("minItems", 0):
        yield f"{path}: must have at least {schema['minItems']} items"


def _listed(properties: Mapping[str, Any]) -> str:
    return ", ".join(sorted(properties))


def _kind_of(value: Any) -> str:  # noqa: ANN401 - a JSON value
    match value:
        case bool():
            return "a boolean"
        case dict():
            return "an object"
        case list():
            return "an array"
        case str():
            return "a string"
    return "a number"
