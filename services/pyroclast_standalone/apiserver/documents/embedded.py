"""Objects inside of objects (`x-kubernetes-embedded-resource`): what they are and their metadata must be right too."""

from __future__ import annotations

from collections.abc import Mapping

from .errors import FieldError, invalid, required
from .metadata import check_embedded_metadata
from .values import Json, Object

__all__ = ["check_embedded", "has_embedded"]


def has_embedded(schema: Mapping[str, Json]) -> bool:
    """Whether objects are embedded anywhere below `schema`."""
    inner = [*(schema.get("properties") or {}).values(), schema.get("additionalProperties"), schema.get("items")]
    return any(
        isinstance(each, Mapping) and (bool(each.get("x-kubernetes-embedded-resource")) or has_embedded(each)) for each in inner
    )


def _check_object(value: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in ("apiVersion", "kind"):
        if field not in value:
            errors.append(required(f"{path}.{field}"))
        elif not value[field]:
            errors.append(invalid(f"{path}.{field}", value[field], "must not be empty"))
    return [*errors, *check_embedded_metadata(value.get("metadata") or {}, f"{path}.metadata")]


def check_embedded(value: Json, schema: Mapping[str, Json], path: str, *, is_root: bool = False) -> list[FieldError]:
    """What is wrong with the objects embedded in `value`."""
    errors: list[FieldError] = []
    if isinstance(value, dict):
        if schema.get("x-kubernetes-embedded-resource") and not is_root:
            errors += _check_object(value, path)
        extra = schema.get("additionalProperties")
        for name, child in value.items():
            inner = (schema.get("properties") or {}).get(name, extra)
            if isinstance(inner, Mapping):
                errors += check_embedded(child, inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        for index, child in enumerate(value):
            errors += check_embedded(child, schema["items"], f"{path}[{index}]")
    return errors
