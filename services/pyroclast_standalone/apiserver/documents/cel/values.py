"""Values of expressions that JSON does not have, and what equality and order mean."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from typing import Any, Final

from pyroclast.resources.quantity import Quantity
from pyroclast_standalone.apiserver.documents.values import Json

from .errors import CelError

__all__ = [
    "NONE",
    "Duration",
    "Format",
    "Message",
    "Optional",
    "TypeOf",
    "Uint",
    "Url",
    "equal",
    "less",
    "overload",
    "type_name",
    "unconvertible",
]


class Uint(int):
    """An unsigned integer."""


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A span of time in nanoseconds."""

    nanos: int

    @property
    def seconds(self) -> float:
        """The span in seconds."""
        return self.nanos / 10**9


@dataclass(frozen=True, slots=True)
class TypeOf:
    """A type as a value."""

    name: str


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be absent."""

    value: Json = None
    present: bool = False


NONE: Final = Optional()


@dataclass(frozen=True, slots=True)
class Url:
    """A parsed address."""

    text: str


@dataclass(frozen=True, slots=True)
class Format:
    """A named form of strings."""

    name: str


class Message(dict[str, Any]):
    """An object built by an expression; `name` is its type (`Object.spec`)."""

    def __init__(self, name: str, fields: dict[str, Json]) -> None:
        super().__init__(fields)
        self.name = name


def overload() -> CelError:
    """Arguments that no function takes."""
    return CelError("no such overload")


def unconvertible(value: Json, kind: str) -> CelError:
    """A value that cannot become one of another kind."""
    return CelError(f"type conversion error from '{type_name(value)}' to '{kind}'")


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def equal(left: Json, right: Json) -> bool:
    """Whether two values are the same; numbers compare across their types, anything else does not."""
    mine, theirs = left.__class__, right.__class__
    if mine is theirs:
        if mine is list:
            return len(left) == len(right) and all(map(equal, left, right))
        if mine is dict:
            return len(left) == len(right) and all(key in right and equal(value, right[key]) for key, value in left.items())
        return bool(left == right)
    if _is_number(left) and _is_number(right):
        return bool(left == right)
    if isinstance(left, dict) and isinstance(right, dict):
        return equal(dict(left), dict(right))
    return False


_ORDERED: Final = (str, bytes, bool, Duration, datetime)


def less(left: Json, right: Json) -> bool:
    """Whether `left` comes before `right`.

    Raises:
        CelError: values without an order between them.
    """
    if _is_number(left) and _is_number(right):
        return bool(left < right)
    for kind in _ORDERED:
        if isinstance(left, kind) and isinstance(right, kind):
            return bool(left < right)  # type: ignore[operator]  # each of these kinds has an order
    raise overload()


_NAMES: Final[dict[type, str]] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    dict: "map",
    datetime: "google.protobuf.Timestamp",
    Duration: "google.protobuf.Duration",
    TypeOf: "type",
    **dict.fromkeys((IPv4Address, IPv6Address), "net.IP"),
    **dict.fromkeys((IPv4Interface, IPv6Interface), "net.CIDR"),
    Quantity: "kubernetes.Quantity",
    Optional: "optional_type",
    Url: "kubernetes.URL",
    Format: "kubernetes.NamedFormat",
}


def type_name(value: Json) -> str:
    """The name of a value's type."""
    if isinstance(value, Message):
        return value.name
    return str(_NAMES.get(value.__class__) or getattr(value, "cel_type", value.__class__.__name__))
