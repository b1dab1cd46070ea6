"""Reads JSON into records although a field is null or has a wrong type, so that one field never hides a whole object. Pure.

Go writes an empty list, map or pointer without `omitempty` as null, and a newer API may have values that this version lacks.
Types such as `tuple[str, ...] | None` in every record would move the question into each reader of a record. So a record is first
decoded strictly, which costs one pass in C and succeeds for nearly every object. Only when that fails, its fields are read one by
one. A value that fits its type is taken whole, null is the default of its field, and a value of a wrong type is left out and
reported with its path. The descent decodes each byte at most twice per level of the record's type.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The errors of decoding: not JSON, not of that type, not UTF-8, nested too deeply."""

TOO_DEEP: Final = "it is nested too deeply to be read"
MOST_FAULTS: Final = 8
"""The most fields that one message names. An object may have thousands of elements, all with the same fault."""

IDENTITY: Final = ("metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion")
"""The fields without which no object can be used."""

T = TypeVar("T")

_ABSENT: Final[Any] = msgspec.UNSET
_NULL: Final = b"null"


class Unreadable(msgspec.ValidationError):
    """An object cannot be read, or lacks a field without which it must not be used."""


class Faults:
    """The fields of one object that could not be read: their number, and the first few with their errors."""

    def __init__(self) -> None:
        self.count = 0
        self.texts: list[str] = []
        self.paths: list[str] = []

    def add(self, path: str, error: str) -> None:
        """Note that the value at `path` cannot be read."""
        self.count += 1
        self.paths.append(path)
        if len(self.texts) < MOST_FAULTS:
            self.texts.append(f"{path}: {error}")

    def __bool__(self) -> bool:
        return self.count > 0

    def __str__(self) -> str:
        others = self.count - len(self.texts)
        return "; ".join(self.texts) + (f"; and {others} more" if others else "")


class RecordReader(Generic[T]):
    """Reads objects of one type of record."""

    def __init__(self, record: type[T]) -> None:
        self._record = record
        self._strict = msgspec.json.Decoder(record)
        self._essential: tuple[str, ...] = (*IDENTITY, *getattr(record, "ESSENTIAL", ()))

    def read(self, raw: bytes | msgspec.Raw) -> tuple[T, str]:
        """Return the record of the JSON text `raw`, and the faults of its fields: empty if all could be read.

        Raises Unreadable: `raw` is not a JSON object, or a field is missing without which the record must not be used.
        """
        try:
            return self._strict.decode(raw), ""
        except RecursionError:
            raise Unreadable(TOO_DEEP) from None
        except UNREADABLE:
            return self._descend(raw)

    def _descend(self, raw: bytes | msgspec.Raw) -> tuple[T, str]:
        faults = Faults()
        record = _value(raw, self._record, "", faults)
        if record is _ABSENT:
            raise Unreadable(str(faults).removeprefix(": ") or "Expected `object`, got `null`")
        if any(_is_essential(path, self._essential) for path in faults.paths):
            raise Unreadable(str(faults))
        return record, str(faults)


def reader(record: type[T]) -> RecordReader[T]:
    """Return the reader of a type of record."""
    result: RecordReader[T] = _reader(record)  # type: ignore[arg-type]
    return result


@cache
def _reader(record: Any) -> RecordReader[Any]:  # noqa: ANN401 - a type
    return RecordReader(record)


def convert(body: Any, record: type[T], *, strict: bool = True) -> T:  # noqa: ANN401 - JSON
    """Return the record of an object that was decoded before; a field that cannot be read has its default.

    Raises Unreadable: as `RecordReader.read`.
    """
    try:
        return msgspec.convert(body, record, strict=strict)
    except msgspec.ValidationError:  # also where the record keeps raw JSON
        pass
    return reader(record).read(msgspec.json.encode(body))[0]


def _is_essential(path: str, essential: tuple[str, ...]) -> bool:
    """Whether `path` is one of the essential fields, a part of one, or holds one."""
    return any(f"{path}.".startswith((f"{each}.", f"{each}[")) or each.startswith(f"{path}.") for each in essential)


def _value(raw: bytes | msgspec.Raw, type_: Any, path: str, faults: Faults) -> Any:  # noqa: ANN401 - any value of JSON
    """Return the value in `raw` as a value of `type_`, or `_ABSENT` for null and for what cannot be read."""
    try:
        return _decoder(type_)(raw)
    except RecursionError:
        faults.add(path, TOO_DEEP)
        return _ABSENT
    except UNREADABLE as error:
        if bytes(raw).strip() == _NULL:
            return _ABSENT
        try:
            return _parts(raw, _solid(type_), path, faults, error)
        except UNREADABLE as wrong:
            faults.add(path, TOO_DEEP if isinstance(wrong, RecursionError) else str(wrong))
            return _ABSENT


def _parts(raw: bytes | msgspec.Raw, type_: Any, path: str, faults: Faults, error: Exception) -> Any:  # noqa: ANN401
    """Return a struct, list or map of those parts of `raw` that can be read. Raises `UNREADABLE` if `raw` has no parts."""
    if _is_struct(type_):
        parts = _MEMBERS(raw)
        fields = {}
        for name, wire, field_type in _fields(type_):
            if wire in parts:
                value = _value(parts[wire], field_type, f"{path}.{wire}" if path else wire, faults)
                if value is not _ABSENT:
                    fields[name] = value
        try:
            return type_(**fields)
        except TypeError:  # a field without a default is missing
            raise error from None
    origin, arguments = get_origin(type_), get_args(type_)
    if origin in {tuple, list} and len(arguments) == (2 if origin is tuple else 1):
        values = (_element(part, arguments[0], f"{path}[{index}]", faults) for index, part in enumerate(_ELEMENTS(raw)))
        return origin(value for value in values if value is not _ABSENT)
    if _is_mapping(origin):
        return dict(_entries(raw, arguments[1], path, faults))
    raise error


def _entries(raw: bytes | msgspec.Raw, type_: Any, path: str, faults: Faults) -> Iterator[tuple[str, Any]]:  # noqa: ANN401
    for key, part in _MEMBERS(raw).items():
        value = _element(part, type_, f"{path}[{key}]", faults)
        if value is not _ABSENT:
            yield key, value


def _element(raw: msgspec.Raw, type_: Any, path: str, faults: Faults) -> Any:  # noqa: ANN401 - any value of JSON
    """Return an element of a list or map; null is the zero value, as in Go."""
    if bytes(raw).strip() == _NULL:
        return _zero(type_)
    return _value(raw, type_, path, faults)


_MEMBERS: Final[Callable[[Any], dict[str, msgspec.Raw]]] = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_ELEMENTS: Final[Callable[[Any], list[msgspec.Raw]]] = msgspec.json.Decoder(list[msgspec.Raw]).decode


@cache
def _decoder(type_: Any) -> Callable[[Any], Any]:  # noqa: ANN401 - any annotation
    return msgspec.json.Decoder(type_).decode


@cache
def _fields(struct: Any) -> tuple[tuple[str, str, Any], ...]:  # noqa: ANN401 - a struct
    """Return the fields of `struct`: the name, the name in JSON, and the type of each."""
    hints = get_type_hints(struct)
    pairs = zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True)
    return tuple((name, wire, hints[name]) for name, wire in pairs)


@cache
def _solid(type_: Any) -> Any:  # noqa: ANN401 - any annotation
    """Return the only type besides None in an optional type; other types as they are."""
    if get_origin(type_) in {Union, UnionType}:
        kinds = [each for each in get_args(type_) if each is not NoneType]
        if len(kinds) == 1:
            return kinds[0]
    return type_


@cache
def _zero(type_: Any) -> Any:  # noqa: ANN401 - any annotation
    """Return the value of null in a list or map of `type_`; `_ABSENT` if there is none."""
    if get_origin(type_) in {Union, UnionType}:
        kinds = get_args(type_)
        return None if NoneType in kinds else 0 if int in kinds else _zero(kinds[0])
    if type_ is Any:
        return None
    origin = get_origin(type_) or type_
    if _is_mapping(origin):
        return {}
    if isinstance(origin, type) and not issubclass(origin, enum.Enum):
        return origin()
    return _ABSENT


def _is_struct(type_: object) -> bool:
    return isinstance(type_, type) and issubclass(type_, msgspec.Struct)


def _is_mapping(origin: object) -> bool:
    return isinstance(origin, type) and issubclass(origin, Mapping)
