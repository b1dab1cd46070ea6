"""Values of expressions: JSON, times, durations and optional values, with their types, comparison and access to their parts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self, TypeAlias

from pyroclast.resources.durations import nanoseconds
from pyroclast.resources.quantity import Quantity

Value: TypeAlias = Any
Optional: TypeAlias = tuple[Value, ...]
"""An optional value: a tuple with one value, or an empty tuple."""
Frame: TypeAlias = dict[Any, Any]
"""The values of variables by name, the items of loops by slot, and the remaining budget."""
METER: Final = ""
_MOMENT: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class EvaluationError(Exception):
    """The expression has no value for these variables: a missing key, a division by zero, a wrong type."""


class BudgetExceeded(EvaluationError):
    """The evaluation exceeds its budget; no operator of the language hides this error."""


def spend(frame: Frame, units: int) -> None:
    """Subtract `units` from the remaining budget of the evaluation; raise BudgetExceeded when fewer are left."""
    frame[METER] -= units
    if frame[METER] < 0:
        raise BudgetExceeded("operation cancelled: actual cost limit exceeded")


class Timestamp(int):
    """A point in time, in nanoseconds since 1970."""

    def __new__(cls, text: str) -> Self:
        """Parse an RFC 3339 text; raise ValueError for other texts."""
        found = _MOMENT.fullmatch(text)
        if found is None:
            raise ValueError(text)
        seconds = (datetime.fromisoformat(found[1] + found[3]) - _EPOCH) // timedelta(seconds=1)
        return super().__new__(cls, seconds * 10**9 + int((found[2] or "0").ljust(9, "0")))


class Duration(int):
    """A duration in nanoseconds."""

    def __new__(cls, text: str) -> Self:
        """Parse a text such as `1h30m`; raise ValueError for other texts."""
        return super().__new__(cls, nanoseconds(text))


@dataclass(frozen=True, slots=True, eq=False)
class Type:
    """A type at compile time. `item`: the item type of a list, a map with string keys, or an optional. `fields`: those of an
    object.
    """

    kind: str
    item: Type | None = None
    fields: Mapping[str, Type] | None = None

    def __getitem__(self, item: Type) -> Type:
        """Return a list, map or optional with items of type `item`: `LIST[INT]`."""
        return Type(self.kind, item)

    def __str__(self) -> str:
        inner = f"string, {self.item}" if self.kind == "map" else self.item
        return f"{self.kind}({inner})" if inner else self.kind


KINDS: Final[dict[type, str]] = {
    bool: "bool", int: "int", float: "double", str: "string", bytes: "bytes", list: "list", dict: "map", type(None): "null_type",
    Timestamp: "google.protobuf.Timestamp", Duration: "google.protobuf.Duration", Quantity: "kubernetes.Quantity",
    tuple: "optional_type", type: "type",
}  # fmt: skip
"""Classes of values, and the names of their types; the types below are in the same order."""
BOOL, INT, DOUBLE, STRING, BYTES, LIST, MAP, NULL, TIMESTAMP, DURATION, QUANTITY, OPTIONAL, TYPE = map(Type, KINDS.values())
DYN: Final = Type("dyn")


def object_of(**fields: Type) -> Type:
    """Return the type of an object with exactly these fields."""
    return Type("object", fields=fields)


def overload(name: str = "", *args: Value) -> EvaluationError:
    """Return the error for arguments that no overload accepts."""
    kinds = ", ".join(KINDS[each.__class__] for each in args)
    return EvaluationError(f"no such overload: {name}({kinds})" if args else "no such overload")


def equal(frame: Frame, left: Value, right: Value) -> bool:
    """Whether two values are equal. Numbers of different types are compared; other values of different types are never equal."""
    mine, theirs = left.__class__, right.__class__
    if mine is not theirs:
        return {mine, theirs} == {int, float} and bool(left == right)
    if mine is list or mine is dict or mine is tuple:
        spend(frame, 2 * len(left))
        if len(left) != len(right):
            return False
        if mine is dict:
            return all(key in right and equal(frame, left[key], right[key]) for key in left)
        return all(equal(frame, *pair) for pair in zip(left, right, strict=True))
    if mine is str:
        spend(frame, len(left) >> 6)
    return bool(left == right)


def contains(frame: Frame, item: Value, holder: Value) -> bool:
    """Return the value of `item in holder`."""
    if isinstance(holder, dict) and isinstance(item, str):
        return item in holder
    if not isinstance(holder, list | dict):
        raise overload()
    spend(frame, len(holder))
    return any(equal(frame, item, each) for each in holder)


def truth(value: Value) -> bool:
    """Return a boolean value; raise EvaluationError for other values."""
    if value.__class__ is not bool:
        raise overload()
    return bool(value)


def item_of(value: Value, index: Value, written: str | None = None) -> Value:
    """Return `value[index]`, or the field `written`, when the data uses that name instead of `index`."""
    if isinstance(value, dict) and isinstance(index, str):
        if index in value:
            return value[index]
        if written in value:
            return value[written]
    elif isinstance(value, list):
        place = int(index) if isinstance(index, float) and index.is_integer() else index
        if place.__class__ is not int:
            raise EvaluationError(f"unsupported index type '{KINDS[place.__class__]}' in list")
        if not 0 <= place < len(value):
            raise EvaluationError(f"index out of bounds: {place}")
        return value[place]
    raise EvaluationError(f"no such key: {str(index).lower() if isinstance(index, bool) else index}")


def held(value: Optional) -> Value:
    """Return the value of an optional; raise EvaluationError when it is empty."""
    if not value:
        raise EvaluationError("optional.none() dereference")
    return value[0]


def optional(value: Value, index: Value, written: str | None = None) -> Optional:
    """Return an item of a value, which may be optional, as an optional; empty when there is no such item."""
    try:
        return (item_of(held(value) if value.__class__ is tuple else value, index, written),)
    except EvaluationError:
        return ()
