"""Generates the structural schema of a model, in the form of a CRD.

This is separate from the CRDs, because a schema only depends on the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

_KEPT: Final = (
    "type",
    "format",
    "enum",
    "default",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "pattern",
    "required",
    "x-kubernetes-validations",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
)


def structural_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of `model` with all references resolved. A field that may be None in Python may be absent in JSON."""
    drawn = model.model_json_schema(by_alias=True)
    return _convert(drawn, drawn.get("$defs", {}))


def _convert(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        target = _convert(definitions[schema["$ref"].rpartition("/")[2]], definitions)
        return {**target, **{key: schema[key] for key in ("description", "default") if key in schema}}
    if "x-kubernetes-int-or-string" in schema:
        return dict(schema)
    if "anyOf" in schema:
        (present,) = (option for option in schema["anyOf"] if option != {"type": "null"})
        beside = {
            key: value for key, value in schema.items() if key not in ("anyOf", "title") and (key, value) != ("default", None)
        }
        return {**_convert(present, definitions), **beside}
    result: dict[str, Any] = {"description": schema["description"]} if "description" in schema else {}
    result |= {key: schema[key] for key in _KEPT if key in schema}
    if "enum" in result:
        result["enum"] = [word for word in result["enum"] if word]  # an empty value means that the field is absent
    if "properties" in schema:
        result["properties"] = {field: _convert(value, definitions) for field, value in schema["properties"].items()}
    if "items" in schema:
        result["items"] = _convert(schema["items"], definitions)
    if isinstance(schema.get("additionalProperties"), dict):
        result["additionalProperties"] = _convert(schema["additionalProperties"], definitions)
    return result
