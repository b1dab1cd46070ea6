"""Values as the API prints them inside its sentences."""

from __future__ import annotations

import json

from .values import Json

__all__ = ["go_kind", "go_quote", "go_value"]


def go_quote(text: str) -> str:
    """`text` in double quotes, escaped the way Go's %q does for what occurs in names and values."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\x7f")


def go_value(value: Json) -> str:
    """A value as Go's %v prints it: `map[a:1 b:[x y]]`."""
    match value:
        case bool():
            return "true" if value else "false"
        case dict():
            return "map[" + " ".join(f"{name}:{go_value(value[name])}" for name in sorted(value)) + "]"
        case list():
            return "[" + " ".join(map(go_value, value)) + "]"
        case None:
            return "<nil>"
        case float() if value.is_integer() and abs(value) < 1e21:
            return str(int(value))
        case _:
            return str(value)


def go_kind(value: Json) -> str:
    """What kind of JSON value it is, as decoding errors name it."""
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case int() | float():
            return "number"
        case dict():
            return "object"
        case None:
            return "null"
        case _:
            return "array"
