"""Decodes built-in kinds as the API does: drops unknown fields, checks types, and keeps or omits empty values.

The decoders are separate from the schemas of custom resources. A built-in kind has a fixed set of fields, whose wire form
defines the meaning of an empty text, a zero and a null. The decoder of a message is compiled once to closures over tables.
"""

from __future__ import annotations

import base64
import binascii
import string
from collections.abc import Callable, Collection
from functools import cache
from typing import Final, TypeAlias

from pyroclast.resources.go_text import go_kind
from pyroclast_standalone.apiserver.documents.errors import Json, Object, Undecodable
from pyroclast_standalone.apiserver.documents.scalars import canonical_amount, canonical_quantity, canonical_time
from pyroclast_standalone.apiserver.documents.wire import MAP_OF_LISTS, Field, messages, resolved

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_SCHEMA: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
_FREE: Final = {
    "io.k8s.apimachinery.pkg.runtime.RawExtension",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON",
    f"{_META}FieldsV1",
}
_BITS: Final = {"int": 63, "int64": 63, "int32": 31, "int16": 15, "byte": 8, "uint8": 8, "uint32": 32, "uint64": 64}
_LIMITS: Final = {kind: 2**bits for kind, bits in _BITS.items()}
_INTEGERS: Final = frozenset(_LIMITS)
_PYTHON: Final[dict[str, type]] = {"string": str, "bool": bool, "float64": float, **dict.fromkeys(_INTEGERS, int)}
_ZEROS: Final[dict[str, Json]] = {"string": "", "bool": False, "float64": 0, **dict.fromkeys(_INTEGERS, 0)}


_BASE64: Final = string.ascii_letters + string.digits + "+/"


class _Run:
    """The state of one decoding: the present path, and the dropped fields."""

    __slots__ = ("mismatch", "path", "unknown")

    def __init__(self) -> None:
        self.path: list[str | int] = []
        self.unknown: list[str] = []
        self.mismatch: Undecodable | None = None  # raised only if no worse error follows

    def where(self) -> str:
        text = ""
        for step in self.path:
            text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
        return text

    def drop(self, field: str) -> None:
        at = self.where()
        self.unknown.append(f'unknown field "{at}.{field}"' if at else f'unknown field "{field}"')


Decoder: TypeAlias = Callable[[Json, _Run], Json]


class _Mismatch(Exception):
    """A value of a wrong type. The caller, which knows the name of the message, writes the error text."""

    def __init__(self, value: Json, wanted: str) -> None:
        super().__init__()
        self.value = value
        self.wanted = wanted


class _BadBytes(Undecodable):
    """Bytes that are not base64. As for a wrong type, the error is raised only if no worse error follows."""


def _mismatch(error: _Mismatch, run: _Run, holder: str) -> Undecodable:
    place = ".".join(step for step in run.path if isinstance(step, str))
    is_number = error.value.__class__ in {int, float} and error.wanted.rpartition(".")[2] in _INTEGERS
    kind = f"number {error.value}" if is_number else go_kind(error.value)
    return Undecodable(f"json: cannot unmarshal {kind} into Go struct field {holder}.{place} of type {error.wanted}")


def _short(name: str) -> str:
    return ".".join(name.split(".")[-2:])


def _scalar(kind: str, name: str) -> Decoder:
    python = _PYTHON[kind]
    limit = _LIMITS.get(kind, 0)
    lowest = 0 if kind.startswith(("u", "b")) else -limit

    def decode(value: Json, _run: _Run) -> Json:
        own = value.__class__
        if own is python:
            if limit and not lowest <= value < limit:
                raise _Mismatch(value, name)
            return value
        if python is float and own is int:
            return value
        raise _Mismatch(value, name)

    return decode


def _text_as(read: Callable[[str], Json]) -> Decoder:
    def decode(value: Json, _run: _Run) -> Json:
        if value.__class__ is not str:
            raise Undecodable(f"json: cannot unmarshal {go_kind(value)} into Go value of type string")
        return read(value)

    return decode


def _int_or_string(value: Json, _run: _Run) -> Json:
    if value.__class__ is str or (value.__class__ is int and -(2**31) <= value < 2**31):
        return value
    kind = f"number {value}" if go_kind(value) == "number" else go_kind(value)
    raise Undecodable(f"json: cannot unmarshal {kind} into Go value of type int32")


def _bytes(value: Json, _run: _Run) -> Json:
    if value.__class__ is not str:
        raise _Mismatch(value, "[]uint8")
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        readable = len(value) - len(value.lstrip(_BASE64))
        raise _BadBytes(f"illegal base64 data at input byte {readable}") from None
    return value


def _schema_or_else(value: Json, run: _Run) -> Json:
    """Decode a schema, or one of its alternatives: a boolean, or a list of schemas or texts."""
    if isinstance(value, dict):
        return codec_of(_SCHEMA).form(value, run)
    if isinstance(value, list):
        return [codec_of(_SCHEMA).form(each, run) if isinstance(each, dict) else each for each in value]
    return value


_SPECIAL: Final[dict[str, Decoder]] = {
    _QUANTITY: lambda value, _run: canonical_quantity(value),
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _int_or_string,
    f"{_META}Time": _text_as(canonical_time),
    f"{_META}MicroTime": _text_as(lambda text: canonical_time(text, micro=True)),
    f"{_META}Duration": _text_as(lambda text: text),
    "bytes": _bytes,
    **dict.fromkeys(_FREE, lambda value, _run: value),
    **{f"{_SCHEMA}Or{other}": _schema_or_else for other in ("Array", "Bool", "StringArray")},
}
_STRUCTS: Final = {
    _QUANTITY,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
    "io.k8s.apimachinery.pkg.runtime.RawExtension",
    f"{_META}Time",
    f"{_META}MicroTime",
    f"{_META}Duration",
}
"""Types whose empty values are written although they could be omitted."""
_SPECIAL_ZEROS: Final[dict[str, Json]] = {
    _QUANTITY: "0",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": 0,
    f"{_META}Duration": "0s",
}


def _list_of(item: Decoder, zero: Callable[[], Json], name: str, python: type | None) -> Decoder:
    """Return a decoder of lists. Items of the type `python` need no decoding."""

    def decode(value: Json, run: _Run) -> Json:
        if value.__class__ is not list:
            raise _Mismatch(value, name)
        path = run.path
        path.append(0)
        for index, each in enumerate(value):
            if each.__class__ is python:
                continue
            path[-1] = index
            new = zero() if each is None else item(each, run)
            if new is not each:
                value[index] = new
        path.pop()
        return value

    return decode


def _map_of(item: Decoder, zero: Callable[[], Json], name: str, python: type | None) -> Decoder:
    """Return a decoder of maps. Values of the type `python` need no decoding."""

    def decode(value: Json, run: _Run) -> Json:
        if value.__class__ is not dict:
            raise _Mismatch(value, name)
        for key, each in value.items():
            if each.__class__ is python:
                continue
            new = zero() if each is None else item(each, run)
            if new is not each:
                value[key] = new
        return value

    return decode


class Codec:
    """Decodes one message. `_fill` creates the fields that the API always writes."""

    __slots__ = ("_fields", "_fill", "name", "short")

    def __init__(self, name: str) -> None:
        self.name = name
        self.short = _short(name)
        self._fields: dict[str, tuple[Decoder, type | None, bool]] | None = None
        self._fill: tuple[tuple[str, Callable[[], Json]], ...] = ()

    def decode(self, document: Object, untouched: Collection[str] = ()) -> list[str]:
        """Normalise `document` in place.

        Return a sentence for each dropped field. Fields in `untouched` are normalised already.
        """
        run = _Run()
        try:
            self.form(document, run, untouched)
        except _Mismatch as error:
            raise Undecodable(f"json: cannot unmarshal {go_kind(error.value)} into Go value of type {error.wanted}") from None
        if run.mismatch is not None:
            raise run.mismatch
        return run.unknown

    def refill(self, document: Object) -> None:
        """Restore in place the fields that the API always writes."""
        for name, make in self._fill:
            if name in document and isinstance(document[name], dict) and not document[name]:
                document[name] = make()

    def zero(self) -> Object:
        """Return an object of this type as the API writes it when no field is set."""
        if self._fields is None:
            self._compile()
        return {name: make() for name, make in self._fill}

    def form(self, value: Json, run: _Run, untouched: Collection[str] = ()) -> Json:
        """Return `value` in its normalised form, see `decode`."""
        if value.__class__ is not dict:
            raise _Mismatch(value, self.short)
        fields = self._fields if self._fields is not None else self._compile()
        gone: list[str] = []
        for name, each in value.items():
            if untouched and name in untouched:
                continue
            try:
                decoder, python, omits_empty = fields[name]
            except KeyError:
                run.drop(name)
                gone.append(name)
                continue
            if each.__class__ is python:
                new = each
            elif each is None:
                gone.append(name)
                continue
            else:
                path = run.path
                path.append(name)
                try:
                    new = decoder(each, run)
                except (_Mismatch, _BadBytes) as error:
                    self._note(error, run, name)
                    new = each
                path.pop()
                if new is not each:
                    value[name] = new
            if omits_empty and not new:
                gone.append(name)
        for name in gone:
            del value[name]
        self._complete(value)
        return value

    def _complete(self, value: Object) -> None:
        for name, make in self._fill:
            if name not in value:
                value[name] = make()

    def _note(self, error: _Mismatch | _BadBytes, run: _Run, field: str) -> None:
        """Keep the first error, and reset the path to `field`."""
        while run.path[-1] != field:
            run.path.pop()
        if run.mismatch is None:
            run.mismatch = _mismatch(error, run, self.short.rpartition(".")[2]) if isinstance(error, _Mismatch) else error

    def _compile(self) -> dict[str, tuple[Decoder, type | None, bool]]:
        fields: dict[str, tuple[Decoder, type | None, bool]] = {}
        fill: list[tuple[str, Callable[[], Json]]] = []
        for field in _flat(self.name):
            decoder, python = _decoder_of(field)
            kind, container = resolved(field)
            is_message = not container and kind not in _SPECIAL and kind in messages()
            omits = field.omits_empty and not field.is_pointer and not is_message and kind not in _FREE
            fields[field.name] = (decoder, python, omits)
            if is_message and not field.is_pointer:
                fill.append((field.name, codec_of(kind).zero))
            elif not field.omits_empty or (kind in _STRUCTS and not container and not field.is_pointer and not field.omits_zero):
                fill.append((field.name, _zero_of(field)))
        self._fields, self._fill = fields, tuple(fill)
        return fields


def _flat(name: str) -> list[Field]:
    return [flat for field in messages().get(name, ()) for flat in ([field] if field.name else _flat(field.type))]


def _zero_of(field: Field) -> Callable[[], Json]:
    kind, container = resolved(field)
    if field.is_pointer or container:
        return lambda: None
    value = _SPECIAL_ZEROS.get(kind, _ZEROS.get(kind))
    return lambda: value


def _decoder_of(field: Field) -> tuple[Decoder, type | None]:
    """Return the decoder of a field's value, and the Python type that needs no decoding."""
    kind, container = resolved(field)
    shown = _short(field.type) if "." in field.type else field.type
    if kind in _SPECIAL:
        item, python, zero = _SPECIAL[kind], None, lambda: _SPECIAL_ZEROS.get(kind)
    elif kind in _PYTHON:
        small = kind in {"string", "bool"}
        item, python, zero = _scalar(kind, shown), _PYTHON[kind] if small else None, lambda: _ZEROS[kind]
    else:
        codec = codec_of(kind)
        item, python, zero = codec.form, None, codec.zero
    match container:
        case "list":
            return _list_of(item, zero, f"[]{shown}", python), None
        case container if container == MAP_OF_LISTS:
            return _map_of(_list_of(item, zero, shown, python), list, f"map[string]{shown}", None), None
        case "map":
            named = shown if field.container != container else f"map[string]{shown}"
            amount: Decoder = lambda value, _run: canonical_amount(value)  # noqa: E731 - beside its only use
            return _map_of(amount if kind == _QUANTITY else item, zero, named, python), None
        case _:
            return item, python


@cache
def codec_of(name: str) -> Codec:
    """Return the codec of the message with this name in the OpenAPI definitions (`io.k8s.api.core.v1.Pod`)."""
    return Codec(name)
