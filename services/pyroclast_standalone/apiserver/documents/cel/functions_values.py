"""Conversions between types, sizes, optional values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import datetime
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from pyroclast_standalone.apiserver.documents.values import Json

from .errors import CelError, NoSuchOverload
from .functions_times import show_duration, show_timestamp
from .values import NONE, Duration, Optional, TypeOf, Uint, type_name, unconvertible

__all__ = ["OPTIONAL_QUALIFIED", "VALUE_FUNCTIONS", "VALUE_METHODS"]

_MIN, _MAX = -(2**63), 2**63 - 1
_ADDRESSES = (IPv4Address, IPv6Address)


def _parsed(text: str, kind: str, least: int, most: int) -> int:
    try:
        value = int(text)
    except ValueError:
        raise unconvertible(text, kind) from None
    if not least <= value <= most:
        raise unconvertible(text, kind)
    return value


def _int(value: Json) -> int:
    match value:
        case bool():
            raise NoSuchOverload
        case float():
            if math.isnan(value) or not _MIN <= value <= _MAX:
                raise CelError("integer overflow")
            return int(value)
        case int():
            if value > _MAX:
                raise CelError("integer overflow")
            return int(value)
        case str():
            return _parsed(value, "int", _MIN, _MAX)
        case datetime():
            return math.floor(value.timestamp())
        case Duration():
            return value.nanos
        case _:
            raise NoSuchOverload


def _uint(value: Json) -> Uint:
    if isinstance(value, str):
        return Uint(_parsed(value, "uint", 0, 2**64 - 1))
    number = _int(value) if not isinstance(value, Uint) else value
    if number < 0:
        raise CelError("unsigned integer overflow")
    return Uint(number)


def _double(value: Json) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise NoSuchOverload
    try:
        return float(value)
    except ValueError:
        raise unconvertible(value, "double") from None


def _string(value: Json) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:.17g}" if value.is_integer() and abs(value) < 1e21 else repr(value)
        case int():
            return str(int(value))
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None
        case datetime():
            return show_timestamp(value)
        case Duration():
            return show_duration(value)
        case _ if hasattr(value, "cel_type") or isinstance(value, _ADDRESSES):
            return str(value)
        case _:
            raise NoSuchOverload


def _bytes(value: Json) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    raise NoSuchOverload


def _bool(value: Json) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value in {"true", "True", "TRUE", "t", "1"}:
        return True
    if isinstance(value, str) and value in {"false", "False", "FALSE", "f", "0"}:
        return False
    if isinstance(value, str):
        raise unconvertible(value, "bool")
    raise NoSuchOverload


def _size(value: Json) -> int:
    if isinstance(value, str | bytes | list | dict):
        return len(value)
    raise NoSuchOverload


def _or_value(value: Json, other: Json) -> Json:
    if not isinstance(value, Optional):
        return value
    return value.value if value.present else other


def _or(value: Json, other: Json) -> Json:
    return other if isinstance(value, Optional) and not value.present else value


def _value(value: Json) -> Json:
    if not isinstance(value, Optional):
        raise NoSuchOverload
    if not value.present:
        raise CelError("optional.none() dereference")
    return value.value


def _has_value(value: Json) -> bool:
    if not isinstance(value, Optional):
        raise NoSuchOverload
    return value.present


def _of_non_zero(value: Json) -> Optional:
    is_zero = value is None or (isinstance(value, str | bytes | list | dict | int | float) and not value)
    return NONE if is_zero else Optional(value, present=True)


VALUE_FUNCTIONS: Final[Mapping[str, Callable[..., Json]]] = {
    "int": _int,
    "uint": _uint,
    "double": _double,
    "string": _string,
    "bytes": _bytes,
    "bool": _bool,
    "size": _size,
    "dyn": lambda value: value,
    "type": lambda value: TypeOf(type_name(value)),
}
VALUE_METHODS: Final[Mapping[str, Callable[..., Json]]] = {
    "size": _size,
    "orValue": _or_value,
    "or": _or,
    "value": _value,
    "hasValue": _has_value,
}
OPTIONAL_QUALIFIED: Final[Mapping[str, Callable[..., Json]]] = {
    "optional.of": lambda value: Optional(value, present=True),
    "optional.ofNonZeroValue": _of_non_zero,
    "optional.none": lambda: NONE,
}
