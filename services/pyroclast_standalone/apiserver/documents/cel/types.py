"""Types that are known before evaluation: of the schema, of literals, of what functions return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pyroclast_standalone.apiserver.documents.values import Json

__all__ = [
    "BOOL",
    "BYTES",
    "DOUBLE",
    "DURATION",
    "DYN",
    "INT",
    "NULL",
    "STRING",
    "TIMESTAMP",
    "UINT",
    "Type",
    "list_of",
    "map_of",
    "of_schema",
]


@dataclass(frozen=True, slots=True, eq=False)
class Type:
    """A type. `fields` are those of an object; `item` is the value of a list, a map or an optional; `key` of a map."""

    kind: str
    item: Type | None = None
    key: Type | None = None
    fields: Mapping[str, Type] | None = field(default=None)

    def __str__(self) -> str:
        match self.kind:
            case "list":
                return f"list({self.item})"
            case "map":
                return f"map({self.key}, {self.item})"
            case "optional":
                return f"optional_type({self.item})"
            case _:
                return self.kind


DYN: Final = Type("dyn")
BOOL: Final = Type("bool")
INT: Final = Type("int")
UINT: Final = Type("uint")
DOUBLE: Final = Type("double")
STRING: Final = Type("string")
BYTES: Final = Type("bytes")
NULL: Final = Type("null")
TIMESTAMP: Final = Type("timestamp")
DURATION: Final = Type("duration")

_FORMATS: Final = {"date-time": TIMESTAMP, "date": TIMESTAMP, "datetime": TIMESTAMP, "duration": DURATION, "byte": BYTES}
_SCALARS: Final = {"boolean": BOOL, "integer": INT, "number": DOUBLE, "string": STRING}


def list_of(item: Type) -> Type:
    """A list of `item`."""
    return Type("list", item)


def map_of(key: Type, item: Type) -> Type:
    """A map from `key` to `item`."""
    return Type("map", item, key)


_WORDS: Final = {
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
}


def escaped(name: str) -> str:
    """A field's name as expressions write it: `foo__dash__bar`."""
    if name in _WORDS:
        return f"__{name}__"
    for text, written in (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__")):
        name = name.replace(text, written)
    return name


def of_schema(schema: Mapping[str, Json], *, is_root: bool = False) -> Type:
    """The type of a value that obeys an OpenAPI schema."""
    if schema.get("x-kubernetes-int-or-string"):
        return DYN
    match schema.get("type"):
        case "array":
            items = schema.get("items")
            return list_of(of_schema(items) if isinstance(items, Mapping) else DYN)
        case "object":
            return _of_object(schema, is_root=is_root)
        case "string":
            return _FORMATS.get(schema.get("format", ""), STRING)
        case kind:
            return _SCALARS.get(str(kind), DYN)


def _of_object(schema: Mapping[str, Json], *, is_root: bool) -> Type:
    extra = schema.get("additionalProperties")
    properties = schema.get("properties") or {}
    if isinstance(extra, Mapping):
        return map_of(STRING, of_schema(extra))
    if schema.get("x-kubernetes-preserve-unknown-fields") and not properties and not is_root:
        return DYN
    fields = {escaped(name): of_schema(inner) for name, inner in properties.items()}
    if is_root or schema.get("x-kubernetes-embedded-resource"):
        meta = Type("object", fields={"name": STRING, "generateName": STRING})
        fields.update(apiVersion=STRING, kind=STRING, metadata=meta)
    return Type("object", fields=fields)
