"""Judges a document of somebody else's kind by a page that lists the fields of each type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["wrong"]

_SCALARS = {"string": str, "integer": int, "boolean": bool}

Schema = Mapping[str, Any]


def wrong(value: Any, kind: Any, schema: Schema, path: str = "") -> list[str]:
    """What of `value` is not as `kind` has it, each with its path: unknown and missing fields, values of another type.

    A kind is a type of `schema` (a mapping of its fields to kinds, or a list of the texts that there may be), a type of YAML,
    `strings` (a mapping to texts), `values` (a mapping to scalars), `port` (a number or a name) or `any`; `[kind]` is a list of
    such, and `!` behind the kind of a field says that it must be there.
    """
    if isinstance(kind, list):
        if not isinstance(value, list):
            return [f"{path}: no list"]
        return [each for index, item in enumerate(value) for each in wrong(item, kind[0], schema, f"{path}[{index}]")]
    kind = kind.removesuffix("!")
    if kind == "any":
        return []
    if kind == "port":
        return [] if type(value) in {str, int} else [f"{path}: no port"]
    if kind in _SCALARS:
        return [] if type(value) is _SCALARS[kind] else [f"{path}: no {kind}"]
    if kind in schema and isinstance(schema[kind], list):
        return [] if value in schema[kind] else [f"{path}: no {kind}"]
    if not isinstance(value, dict):
        return [f"{path}: no mapping"]
    if kind in {"strings", "values"}:
        allowed = (str,) if kind == "strings" else (str, int, bool)
        return [f"{path}.{key}: no text" for key, item in value.items() if not isinstance(item, allowed)]
    fields = schema[kind]
    missing = [f"{path}.{name}: is missing" for name, of in fields.items() if str(of).endswith("!") and name not in value]
    unknown = [f"{path}.{name}: no field of {kind}" for name in value if name not in fields]
    known = [each for name in value if name in fields for each in wrong(value[name], fields[name], schema, f"{path}.{name}")]
    return missing + unknown + known
