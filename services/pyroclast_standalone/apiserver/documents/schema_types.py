"""The CEL types of schemas, and the conversion of JSON values to these types."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from pyroclast.expressions import EvaluationError
from pyroclast.expressions.values import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    LIST,
    MAP,
    STRING,
    TIMESTAMP,
    Duration,
    Timestamp,
    Type,
    object_of,
)
from pyroclast_standalone.apiserver.documents.values import Json

_Reader: TypeAlias = Callable[[Json], Json]
_FORMATS: Final = {"date-time": TIMESTAMP, "date": TIMESTAMP, "datetime": TIMESTAMP, "duration": DURATION, "byte": BYTES}
_SCALARS: Final = {"boolean": BOOL, "integer": INT, "number": DOUBLE, "string": STRING}
_WORDS: Final = frozenset(
    "true false null in as break const continue else for function if import let loop package namespace return var void "  # noqa: SIM905
    "while".split()
)
_ESCAPES: Final = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))


def _escaped(name: str) -> str:
    """Return the name of a field in expressions: `foo__dash__bar`."""
    if name in _WORDS:
        return f"__{name}__"
    for text, written in _ESCAPES:
        name = name.replace(text, written)
    return name


def type_of(schema: Mapping[str, Json], *, is_root: bool = False) -> Type:
    """Return the type of a value of an OpenAPI schema. A root and an embedded resource have apiVersion, kind and metadata."""
    if schema.get("x-kubernetes-int-or-string"):
        return DYN
    match schema.get("type"):
        case "array":
            items = schema.get("items")
            return LIST[type_of(items) if isinstance(items, Mapping) else DYN]
        case "object":
            return _type_of_object(schema, is_root=is_root)
        case "string":
            return _FORMATS.get(schema.get("format", ""), STRING)
        case kind:
            return _SCALARS.get(str(kind), DYN)


def _type_of_object(schema: Mapping[str, Json], *, is_root: bool) -> Type:
    extra = schema.get("additionalProperties")
    properties = schema.get("properties") or {}
    if isinstance(extra, Mapping):
        return MAP[type_of(extra)]
    if schema.get("x-kubernetes-preserve-unknown-fields") and not properties and not is_root:
        return DYN
    fields = {_escaped(name): type_of(inner) for name, inner in properties.items()}
    if is_root or schema.get("x-kubernetes-embedded-resource"):
        fields.update(apiVersion=STRING, kind=STRING, metadata=object_of(name=STRING, generateName=STRING))
    return object_of(**fields)


def _text(parse: Callable[[str], Json]) -> _Reader:
    def read(value: Json) -> Json:
        try:
            return parse(value) if isinstance(value, str) else value
        except (EvaluationError, ValueError):
            return value

    return read


_READERS: Final[Mapping[str, _Reader]] = {
    TIMESTAMP.kind: _text(lambda text: Timestamp(f"{text}T00:00:00Z" if len(text) == len("2006-01-02") else text)),
    DURATION.kind: _text(Duration),
    BYTES.kind: _text(lambda text: base64.b64decode(text, validate=True)),
    DOUBLE.kind: lambda value: float(value) if value.__class__ is int else value,
}


def reader_of(schema: Mapping[str, Json]) -> _Reader | None:
    """Return a function that converts the JSON values it can convert to the schema's types; None if no value needs that."""
    if not (items := schema.get("items") or schema.get("additionalProperties")) or not isinstance(items, Mapping):
        fields = {name: reader for name, inner in (schema.get("properties") or {}).items() if (reader := reader_of(inner))}
        return _of_object(fields) if fields else _READERS.get(type_of(schema).kind)
    item = reader_of(items)
    return None if item is None else _of_items(item)


def _of_object(fields: Mapping[str, _Reader]) -> _Reader:
    def read(value: Json) -> Json:
        if not isinstance(value, dict):
            return value
        return {name: fields[name](each) if name in fields else each for name, each in value.items()}

    return read


def _of_items(item: _Reader) -> _Reader:
    def read(value: Json) -> Json:
        if isinstance(value, dict):
            return {name: item(each) for name, each in value.items()}
        return [item(each) for each in value] if isinstance(value, list) else value

    return read
