"""Decodes protobuf bodies of kubectl 1.32 and newer to JSON, by the table of wire forms."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from pyroclast_standalone.apiserver.documents.errors import Json, Object, Undecodable, UnsupportedBody
from pyroclast_standalone.apiserver.documents.schema import definition_name
from pyroclast_standalone.apiserver.documents.wire import MAP_OF_LISTS, messages, resolved

_MAGIC: Final = b"k8s\x00"
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_HINT: Final = "re-run with `--dry-run=client -o yaml | kubectl create -f -`"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types
_NUMBERS: Final = {"bool", "int32", "int64", "int", "uint8", "byte"}
_SCALARS: Final = {*_NUMBERS, "string", "float64", "bytes"}

Parts = dict[int, list[Any]]
"""The values of a message by field number: a number, or the bytes of any longer value."""


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _parts(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield numbers and values of the fields of a message in order."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        size, at = _varint(data, at) if kind == _BYTES else ({_FIXED64: 8, _FIXED32: 4}[kind], at)
        if at + size > len(data):
            raise IndexError(at)
        yield number, data[at : at + size]
        at += size


def _read(data: bytes) -> Parts:
    found: Parts = {}
    for number, value in _parts(data):
        found.setdefault(number, []).append(value)
    return found


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _utf8(value: Any) -> str:  # noqa: ANN401 - a result of `_parts`
    if not isinstance(value, bytes):
        raise TypeError("a number where a text should be")
    return value.decode()


def _text(parts: Parts, number: int) -> str:
    return _utf8(parts.get(number, [b""])[-1])


def _number(parts: Parts, number: int) -> int:
    return _signed(parts.get(number, [0])[-1])


def _time(parts: Parts, *, micro: bool = False) -> str | None:
    seconds, nanos = _number(parts, 1), _number(parts, 2)
    if not seconds and not nanos:
        return None
    fraction = f".{nanos // 1000:06d}" if micro else ""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}{fraction}Z"


def _raw(parts: Parts) -> Json:
    return orjson.loads(parts[1][-1]) if parts.get(1) and parts[1][-1] else None


_SPECIAL: Final[Mapping[str, Callable[[Parts], Json]]] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": lambda parts: _text(parts, 1) or "0",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": lambda parts: _text(parts, 3) if _number(parts, 1) else _number(parts, 2),
    f"{_META}Time": _time,
    f"{_META}MicroTime": lambda parts: _time(parts, micro=True),
    f"{_META}Duration": lambda parts: f"{_number(parts, 1) / 10**9:g}s",
    f"{_META}FieldsV1": _raw,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": _raw,
}


def _value(value: Any, kind: str) -> Json:  # noqa: ANN401 - a result of `_parts`
    if kind == "bool":
        return bool(value)
    if kind in _NUMBERS:
        return _signed(value)
    if kind == "float64":
        return struct.unpack("<d", value)[0]
    if kind == "bytes":
        return base64.b64encode(value).decode()
    if kind == "string":
        return _utf8(value)
    special = _SPECIAL.get(kind)
    return special(_read(value)) if special is not None else _object(value, kind)


def _numbers(values: list[Any]) -> list[Any]:
    """Return the items of a list of numbers. An entry may contain several packed numbers."""
    found: list[Any] = []
    for each in values:
        if isinstance(each, bytes):
            at = 0
            while at < len(each):
                value, at = _varint(each, at)
                found.append(value)
        else:
            found.append(each)
    return found


def _listed(data: bytes, kind: str) -> list[Json]:
    """Return the items of a named list, which is a message."""
    return [_value(each, kind) for each in _read(data).get(1, ())]


def _object(data: bytes, name: str) -> Object:
    """Return a message as JSON, with embedded messages flattened and empty texts omitted."""
    result: Object = {}
    parts = _read(data)
    for field in messages().get(name, ()):
        values = parts.get(field.number) if field.number else None
        if not values:
            continue
        kind, container = resolved(field)
        if container in {"map", MAP_OF_LISTS}:
            empty = 0 if kind in _NUMBERS else b""
            entries = {_text(entry, 1): entry.get(2, [empty])[-1] for entry in map(_read, values)}
            read = _listed if container == MAP_OF_LISTS else _value
            result[field.name] = {name: read(each, kind) for name, each in entries.items()}
        elif container == "list":
            items = _numbers(values) if kind in _NUMBERS else values
            result[field.name] = [_value(each, kind) for each in items]
        elif not field.name:
            result.update(_object(values[-1], kind))
        elif values[-1] != b"" or field.is_pointer or kind not in _SCALARS:
            result[field.name] = _value(values[-1], kind)
    return result


def decode(body: bytes, *, kind: str = "") -> Object:
    """Return the object in a body of type `application/vnd.kubernetes.protobuf`: the magic number and the envelope.

    `kind`: the kind that the route expects, for `DeleteOptions`, which are the same in every group.
    """
    if not body.startswith(_MAGIC):
        raise Undecodable("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    try:
        envelope = _read(body[len(_MAGIC) :])
        type_of = _read(envelope.get(1, [b""])[-1])
        api_version, own = _text(type_of, 1), _text(type_of, 2) or kind
        group, _, version = api_version.rpartition("/")
        name = f"{_META}{own}" if own in {"DeleteOptions", "Status"} else definition_name(group, version, own)
        if name not in messages():
            raise UnsupportedBody(f"{own} of {api_version} cannot be read as protobuf here; {_HINT}")
        content = _object(envelope.get(2, [b""])[-1], name)
    except (IndexError, KeyError, TypeError, ValueError, OverflowError, RecursionError, struct.error):
        raise Undecodable("unexpected EOF") from None
    return {"apiVersion": api_version, "kind": own, **content}
