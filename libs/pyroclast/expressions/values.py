"""Values of expressions: those of JSON, and times, spans, optional values and types."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, TypeAlias

from pyroclast.resources.durations import nanoseconds
from pyroclast.resources.quantity import Quantity

from .errors import BudgetExceeded, EvaluationError

__all__ = [
    "KINDS", "NONE", "Duration", "Meter", "Optional", "Timestamp", "TypeOf", "Value", "equal", "kind_of", "overload",
]  # fmt: skip

Value: TypeAlias = Any
_MOMENT: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_YEARS: Final = range(-62135596800 * 10**9, 253402300800 * 10**9)  # 0001 to 9999


class Meter:
    """The work that an evaluation may still do, in units of about one operation."""

    __slots__ = ("left",)

    def __init__(self, budget: int) -> None:
        self.left = budget

    def spend(self, units: int) -> None:
        """Takes `units` away, or raises BudgetExceeded where fewer are left."""
        self.left -= units
        if self.left < 0:
            raise BudgetExceeded


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A point in time, in nanoseconds since 1970."""

    nanos: int

    def __post_init__(self) -> None:
        if self.nanos not in _YEARS:
            raise EvaluationError("timestamp overflow")

    @classmethod
    def parse(cls, text: str) -> Timestamp:
        """The point in time of an RFC 3339 text, or a ValueError."""
        found = _MOMENT.fullmatch(text)
        if found is None:
            raise ValueError(text)
        seconds = (datetime.fromisoformat(found[1] + found[3]) - _EPOCH) // timedelta(seconds=1)
        return cls(seconds * 10**9 + int((found[2] or "0").ljust(9, "0")))

    def __str__(self) -> str:
        fraction = f".{self.nanos % 10**9:09d}".rstrip("0") if self.nanos % 10**9 else ""
        return f"{(_EPOCH + timedelta(seconds=self.nanos // 10**9)).isoformat().removesuffix('+00:00')}{fraction}Z"


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A span of time in nanoseconds."""

    nanos: int

    def __post_init__(self) -> None:
        if not -(2**63) <= self.nanos < 2**63:
            raise EvaluationError("duration overflow")

    @classmethod
    def parse(cls, text: str) -> Duration:
        """The span that a text such as `1h30m` tells, or a ValueError."""
        return cls(nanoseconds(text))

    def __str__(self) -> str:
        return f"{(Decimal(self.nanos) / 10**9).normalize():f}s"


@dataclass(frozen=True, slots=True)
class TypeOf:
    """A type as a value."""

    name: str


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be absent."""

    value: Value = None
    present: bool = False

    def get(self) -> Value:
        """The value, which has to be there."""
        if not self.present:
            raise EvaluationError("optional.none() dereference")
        return self.value


NONE: Final = Optional()
KINDS: Final[dict[type, str]] = {
    bool: "bool", int: "int", float: "double", str: "string", bytes: "bytes", list: "list", dict: "map", type(None): "null_type",
    Timestamp: "google.protobuf.Timestamp", Duration: "google.protobuf.Duration", Quantity: "kubernetes.Quantity",
    Optional: "optional_type", TypeOf: "type",
}  # fmt: skip


def kind_of(value: Value) -> str:
    """The kind of a value's type."""
    return KINDS[value.__class__]


def overload(name: str = "", *args: Value) -> EvaluationError:
    """Arguments that no function takes."""
    return EvaluationError(f"no such overload: {name}({', '.join(map(kind_of, args))})" if args else "no such overload")


def equal(meter: Meter, left: Value, right: Value) -> bool:
    """Whether two values are the same; numbers compare across their types, anything else does not."""
    mine, theirs = left.__class__, right.__class__
    if mine is not theirs:
        return {mine, theirs} == {int, float} and bool(left == right)
    if mine is list or mine is dict:
        meter.spend(2 * len(left))
        if len(left) != len(right):
            return False
        if mine is list:
            return all(equal(meter, *pair) for pair in zip(left, right, strict=True))
        return all(key in right and equal(meter, left[key], right[key]) for key in left)
    if mine is str:
        meter.spend(len(left) >> 6)
    if mine is Optional:
        return left.present == right.present and equal(meter, left.value, right.value)
    return bool(left == right)
