"""Protobuf bodies as kubectl 1.32 and newer send them, decoded to the JSON form.

The descriptors are built from the table of wire forms when a kind is first asked for: nothing of it is loaded before.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import orjson
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message

from .errors import Undecodable, UnsupportedBody
from .schema import definition_name
from .values import Json, Object
from .wire import message_of
from .wire.table import Field, named_types

__all__ = ["decode"]

_MAGIC: Final = b"k8s\x00"
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_HINT: Final = "re-run with `--dry-run=client -o yaml | kubectl create -f -`"
_Proto = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {
    "string": _Proto.TYPE_STRING,
    "bool": _Proto.TYPE_BOOL,
    "int32": _Proto.TYPE_INT32,
    "int64": _Proto.TYPE_INT64,
    "int": _Proto.TYPE_INT64,
    "float64": _Proto.TYPE_DOUBLE,
    "bytes": _Proto.TYPE_BYTES,
    "uint8": _Proto.TYPE_UINT32,
    "byte": _Proto.TYPE_UINT32,
}
_SPECIAL_FIELDS: Final[Mapping[str, tuple[tuple[str, int, str], ...]]] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": (("string", 1, "string"),),
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": (("type", 1, "int64"), ("intVal", 2, "int32"), ("strVal", 3, "string")),
    f"{_META}Time": (("seconds", 1, "int64"), ("nanos", 2, "int32")),
    f"{_META}MicroTime": (("seconds", 1, "int64"), ("nanos", 2, "int32")),
    f"{_META}Duration": (("duration", 1, "int64"),),
    f"{_META}FieldsV1": (("raw", 1, "bytes"),),
    "io.k8s.apimachinery.pkg.runtime.RawExtension": (("raw", 1, "bytes"),),
    "io.k8s.apimachinery.pkg.runtime.TypeMeta": (("apiVersion", 1, "string"), ("kind", 2, "string")),
}
_UNKNOWN: Final = "io.k8s.apimachinery.pkg.runtime.Unknown"


def _resolved(field: Field) -> tuple[str, str]:
    kind, container = field.type, field.container
    while kind in named_types():
        kind, inner = named_types()[kind]
        container = inner or container
    if kind in {"io.k8s.apimachinery.pkg.types.UID", "io.k8s.apimachinery.pkg.types.NodeName"}:
        kind = "string"
    return kind, container


class _Descriptors:
    """Builds descriptors of messages and of everything they refer to."""

    def __init__(self) -> None:
        self.pool = descriptor_pool.DescriptorPool()
        self._known: set[str] = set()
        self._files: list[str] = []
        self._add_file("envelope", [self._envelope(), self._plain("io.k8s.apimachinery.pkg.runtime.TypeMeta")])

    def of(self, name: str) -> type[Message]:
        """The class of the message `name`, as the definitions name it."""
        if name not in self._known:
            wanted = self._closure(name)
            self._known |= wanted
            self._add_file(name, [self._message(each) for each in sorted(wanted)])
        return message_factory.GetMessageClass(self.pool.FindMessageTypeByName(f"m.{_flat(name)}"))

    def _add_file(self, name: str, messages: list[descriptor_pb2.DescriptorProto]) -> None:
        own = descriptor_pb2.FileDescriptorProto(name=f"{name}.proto", package="m", syntax="proto2")
        own.message_type.extend(messages)
        own.dependency.extend(sorted(self._files))
        self._files.append(own.name)
        self.pool.Add(own)

    def _closure(self, name: str) -> set[str]:
        found: set[str] = set()
        pending = [name]
        while pending:
            each = pending.pop()
            if each in found or each in self._known:
                continue
            found.add(each)
            if each in _SPECIAL_FIELDS:
                continue
            message = message_of(each)
            for field in message.fields if message else ():
                kind, _ = _resolved(field)
                if field.number and kind not in _SCALARS:
                    pending.append(kind)
        return found

    def _envelope(self) -> descriptor_pb2.DescriptorProto:
        own = descriptor_pb2.DescriptorProto(name=_flat(_UNKNOWN))
        own.field.append(_field("typeMeta", 1, "io.k8s.apimachinery.pkg.runtime.TypeMeta"))
        own.field.append(_field("raw", 2, "bytes"))
        own.field.append(_field("contentEncoding", 3, "string"))
        own.field.append(_field("contentType", 4, "string"))
        return own

    def _plain(self, name: str) -> descriptor_pb2.DescriptorProto:
        own = descriptor_pb2.DescriptorProto(name=_flat(name))
        own.field.extend(_field(field, number, kind) for field, number, kind in _SPECIAL_FIELDS[name])
        return own

    def _message(self, name: str) -> descriptor_pb2.DescriptorProto:
        if name in _SPECIAL_FIELDS:
            return self._plain(name)
        own = descriptor_pb2.DescriptorProto(name=_flat(name))
        message = message_of(name)
        for field in message.fields if message else ():
            if not field.number:
                continue
            kind, container = _resolved(field)
            if container == "map":
                entry = own.nested_type.add(name=f"E{field.number}")
                entry.options.map_entry = True
                entry.field.append(_field("key", 1, "string"))
                entry.field.append(_field("value", 2, kind))
                wire = _field(_wire_name(field), field.number, f".m.{_flat(name)}.E{field.number}", is_list=True)
            else:
                wire = _field(_wire_name(field), field.number, kind, is_list=container == "list")
            own.field.append(wire)
        return own


def _flat(name: str) -> str:
    return name.replace(".", "_").replace("-", "_")


def _wire_name(field: Field) -> str:
    return f"f{field.number}"


def _field(name: str, number: int, kind: str, *, is_list: bool = False) -> descriptor_pb2.FieldDescriptorProto:
    label = _Proto.LABEL_REPEATED if is_list else _Proto.LABEL_OPTIONAL
    own = _Proto(name=name, number=number, label=label)
    if kind in _SCALARS:
        own.type = _SCALARS[kind]
    else:
        own.type = _Proto.TYPE_MESSAGE
        own.type_name = kind if kind.startswith(".m.") else f".m.{_flat(kind)}"
    return own


def _time(message: Any) -> str | None:  # noqa: ANN401  # a generated message
    if not message.seconds and not message.nanos:
        return None
    return f"{datetime.fromtimestamp(message.seconds, UTC):%Y-%m-%dT%H:%M:%S}Z"


def _micro_time(message: Any) -> str | None:  # noqa: ANN401
    if not message.seconds and not message.nanos:
        return None
    return f"{datetime.fromtimestamp(message.seconds, UTC):%Y-%m-%dT%H:%M:%S}.{message.nanos // 1000:06d}Z"


def _raw(message: Any) -> Json:  # noqa: ANN401
    return orjson.loads(message.raw) if message.raw else None


_SPECIAL: Final[Mapping[str, Callable[[Any], Json]]] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": lambda message: message.string or "0",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": lambda message: message.strVal if message.type == 1 else message.intVal,
    f"{_META}Time": _time,
    f"{_META}MicroTime": _micro_time,
    f"{_META}Duration": lambda message: f"{message.duration / 10**9:g}s",
    f"{_META}FieldsV1": _raw,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": _raw,
}


def _value(value: Any, kind: str) -> Json:  # noqa: ANN401
    if kind == "bytes":
        return base64.b64encode(value).decode()
    if kind in _SCALARS:
        return value
    special = _SPECIAL.get(kind)
    return special(value) if special is not None else _object(value, kind)


def _object(message: Any, name: str) -> Object:  # noqa: ANN401
    """A message as JSON: what is on the wire, embedded messages flattened, empty texts left out."""
    result: Object = {}
    declared = message_of(name)
    present = {field.number: value for field, value in message.ListFields()}
    for field in declared.fields if declared else ():
        if field.number not in present:
            continue
        kind, container = _resolved(field)
        value = present[field.number]
        if container == "map":
            result[field.name] = {key: _value(value[key], kind) for key in value}
        elif container == "list":
            result[field.name] = [_value(each, kind) for each in value]
        elif not field.name:
            result.update(_object(value, kind))
        elif value != "" or field.is_pointer:
            result[field.name] = _value(value, kind)
    return result


_descriptors: list[_Descriptors] = []


def _all() -> _Descriptors:
    if not _descriptors:
        _descriptors.append(_Descriptors())
    return _descriptors[0]


def _envelope(body: bytes) -> Any:  # noqa: ANN401
    if not body.startswith(_MAGIC):
        raise Undecodable("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    envelope = message_factory.GetMessageClass(_all().pool.FindMessageTypeByName(f"m.{_flat(_UNKNOWN)}"))()
    try:
        envelope.ParseFromString(body[len(_MAGIC) :])
    except DecodeError:
        raise Undecodable("unexpected EOF") from None
    return envelope


def decode(body: bytes, *, kind: str = "") -> Object:
    """The object in a body of type `application/vnd.kubernetes.protobuf`.

    Args:
        body: The magic number and the envelope.
        kind: What the route expects; counts for `DeleteOptions`, which is the same in every group.

    Raises:
        UnsupportedBody: a kind without a wire form here; the text says how to send it as JSON.
        Undecodable: no such envelope, or damaged content.
    """
    envelope = _envelope(body)
    api_version = envelope.typeMeta.apiVersion
    own = envelope.typeMeta.kind or kind
    group, _, version = api_version.rpartition("/")
    name = f"{_META}{own}" if own in {"DeleteOptions", "Status"} else definition_name(group, version, own)
    if message_of(name) is None:
        raise UnsupportedBody(f"{own} of {api_version} cannot be read as protobuf here; {_HINT}")
    message = _all().of(name)()
    try:
        message.ParseFromString(envelope.raw)
    except DecodeError:
        raise Undecodable("unexpected EOF") from None
    return {"apiVersion": api_version, "kind": own, **_object(message, name)}
