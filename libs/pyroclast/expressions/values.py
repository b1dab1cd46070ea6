"""Values of expressions, those of JSON and times, spans and optional values: their types, compared, and read from each other."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self, TypeAlias

from pyroclast.resources.durations import nanoseconds
from pyroclast.resources.quantity import Quantity

__all__ = [
    "BOOL", "BYTES", "DOUBLE", "DURATION", "DYN", "INT", "KINDS", "LIST", "MAP", "METER", "NULL", "OPTIONAL", "QUANTITY",
    "STRING", "TIMESTAMP", "TYPE", "BudgetExceeded", "Duration", "EvaluationError", "Frame", "Optional", "Timestamp", "Type",
    "Value", "contains", "equal", "held", "item_of", "object_of", "optional", "overload", "spend", "truth",
]  # fmt: skip

Value: TypeAlias = Any
Optional: TypeAlias = tuple[Value, ...]
"""A value that may be absent: a tuple of one, or of none."""
Frame: TypeAlias = dict[Any, Any]
"""The values of variables by their names, and of items of loops by their places; and the work that may still be done."""
METER: Final = ""
_MOMENT: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class EvaluationError(Exception):
    """An expression that has no value for these variables: a missing key, a division by zero, a wrong type."""


class BudgetExceeded(EvaluationError):
    """An expression that takes more work than it may; no operator of the language hides it."""


def spend(frame: Frame, units: int) -> None:
    """Takes `units` of work away from the evaluation, or raises BudgetExceeded where fewer are left."""
    frame[METER] -= units
    if frame[METER] < 0:
        raise BudgetExceeded("operation cancelled: actual cost limit exceeded")


class Timestamp(int):
    """A point in time, in nanoseconds since 1970."""

    def __new__(cls, text: str) -> Self:
        """The point in time of an RFC 3339 text, or a ValueError."""
        found = _MOMENT.fullmatch(text)
        if found is None:
            raise ValueError(text)
        seconds = (datetime.fromisoformat(found[1] + found[3]) - _EPOCH) // timedelta(seconds=1)
        return super().__new__(cls, seconds * 10**9 + int((found[2] or "0").ljust(9, "0")))


class Duration(int):
    """A span of time in nanoseconds."""

    def __new__(cls, text: str) -> Self:
        """The span that a text such as `1h30m` tells, or a ValueError."""
        return super().__new__(cls, nanoseconds(text))


@dataclass(frozen=True, slots=True, eq=False)
class Type:
    """A type, known before an evaluation. `item` is what a list, a map by strings, or an optional holds; `fields` an object's."""

    kind: str
    item: Type | None = None
    fields: Mapping[str, Type] | None = None

    def __getitem__(self, item: Type) -> Type:
        """A list, map or optional of `item`: `LIST[INT]`."""
        return Type(self.kind, item)

    def __str__(self) -> str:
        inner = f"string, {self.item}" if self.kind == "map" else self.item
        return f"{self.kind}({inner})" if inner else self.kind


KINDS: Final[dict[type, str]] = {
    bool: "bool", int: "int", float: "double", str: "string", bytes: "bytes", list: "list", dict: "map", type(None): "null_type",
    Timestamp: "google.protobuf.Timestamp", Duration: "google.protobuf.Duration", Quantity: "kubernetes.Quantity",
    tuple: "optional_type", type: "type",
}  # fmt: skip
"""Classes of values, and what their types are called; the types below stand in the same order."""
BOOL, INT, DOUBLE, STRING, BYTES, LIST, MAP, NULL, TIMESTAMP, DURATION, QUANTITY, OPTIONAL, TYPE = map(Type, KINDS.values())
DYN: Final = Type("dyn")


def object_of(**fields: Type) -> Type:
    """An object that has these fields and no others."""
    return Type("object", fields=fields)


def overload(name: str = "", *args: Value) -> EvaluationError:
    """Arguments that no function takes."""
    kinds = ", ".join(KINDS[each.__class__] for each in args)
    return EvaluationError(f"no such overload: {name}({kinds})" if args else "no such overload")


def equal(frame: Frame, left: Value, right: Value) -> bool:
    """Whether two values are the same; numbers compare across their types, anything else does not."""
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
    """`item in holder`."""
    if isinstance(holder, dict) and isinstance(item, str):
        return item in holder
    if not isinstance(holder, list | dict):
        raise overload()
    spend(frame, len(holder))
    return any(equal(frame, item, each) for each in holder)


def truth(value: Value) -> bool:
    """A value that must be true or false."""
    if value.__class__ is not bool:
        raise overload()
    return bool(value)


def item_of(value: Value, index: Value, written: str | None = None) -> Value:
    """`value[index]`, or `value.written` where the data may call the field `index`."""
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
    """The value of one that is there."""
    if not value:
        raise EvaluationError("optional.none() dereference")
    return value[0]


def optional(value: Value, index: Value, written: str | None = None) -> Optional:
    """An item of a value that may be absent itself, if it is there."""
    try:
        return (item_of(held(value) if value.__class__ is tuple else value, index, written),)
    except EvaluationError:
        return ()
