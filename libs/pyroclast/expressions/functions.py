"""The operators and functions of expressions: one table that says what each takes and gives, and does it."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from itertools import product
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from pyroclast.resources import quantity
from pyroclast.resources.patterns import compile_pattern

from .errors import EvaluationError
from .types import BOOL, DOUBLE, DURATION, DYN, INT, QUANTITY, STRING, TIMESTAMP, TYPE, Type, list_of, optional_of
from .values import KINDS, Duration, Meter, Timestamp, TypeOf, Value, kind_of, overload

__all__ = ["TABLE", "Overload"]

_MAX_SIZE: Final = 1 << 20  # characters or items that an expression may put together: as much as an object may have
_MAX_PATTERN: Final = 1000  # characters
_WHOLE: Final = re.compile(r"[-+]?\d{1,19}", re.ASCII)
_DECIMAL: Final = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)
_TIME, _SPAN, _AMOUNT = TIMESTAMP.kind, DURATION.kind, QUANTITY.kind


class Overload(NamedTuple):
    """What arguments of certain kinds give, None for what the first of them holds, and what makes it, or a ValueError."""

    result: Type | None
    call: Callable[..., Value]
    is_metered: bool  # whether it takes the meter before the arguments


def _bound(meter: Meter, size: int) -> None:
    """Before a text or list of that size is made."""
    meter.spend(size >> 3)
    if size > _MAX_SIZE:
        raise EvaluationError(f"a text or list of more than {_MAX_SIZE} characters or items")


def _joined(meter: Meter, left: Value, right: Value) -> Value:
    _bound(meter, len(left) + len(right))
    return left + right


def _divided(left: int, right: int) -> int:
    if right == 0:
        raise EvaluationError("division by zero")
    quotient = abs(left) // abs(right)
    return -quotient if (left < 0) != (right < 0) else quotient


def _rest(left: int, right: int) -> int:
    if right == 0:
        raise EvaluationError("modulus by zero")
    return abs(left) % abs(right) * (-1 if left < 0 else 1)


def _ratio(left: float, right: float) -> float:
    if right != 0:
        return left / right
    return math.nan if left == 0 or math.isnan(left) else math.copysign(math.inf, left) * math.copysign(1, right)


def _matches(meter: Meter, text: str, pattern: str) -> bool:
    if len(pattern) > _MAX_PATTERN:
        raise EvaluationError(f"a regular expression of more than {_MAX_PATTERN} characters")
    meter.spend(len(text) * len(pattern) >> 8)
    return compile_pattern(pattern).search(text) is not None


def _int(value: Value) -> int:
    if isinstance(value, Duration | Timestamp):
        return value.nanos // (1 if isinstance(value, Duration) else 10**9)
    if isinstance(value, float) and not -(2**63) < value < 2**63:
        raise OverflowError
    if isinstance(value, str) and not _WHOLE.fullmatch(value):
        raise ValueError(value)
    return int(value)


def _double(value: Value) -> float:
    if isinstance(value, str) and not _DECIMAL.fullmatch(value):
        raise ValueError(value)
    return float(value)


def _is_quantity(text: str) -> bool:
    try:
        quantity.parse(text)
    except quantity.QuantityError:
        return False
    return True


def _is_url(text: str) -> bool:
    """Whether it is an absolute URI, or an absolute path."""
    try:
        parts = urlsplit(text)
        return text.startswith("/") or (bool(parts.scheme) and parts.port != 0 and " " not in parts.netloc)
    except ValueError:  # brackets or a port that are none
        return False


def _substring(text: str, start: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    if not 0 <= start <= stop <= len(text):
        raise EvaluationError(f"index out of range: {start if not 0 <= start <= len(text) else stop}")
    return text[start:stop]


def _replace(meter: Meter, text: str, old: str, new: str) -> str:
    _bound(meter, len(text) + (len(text) + 1) * max(0, len(new) - len(old)))
    return text.replace(old, new)


def _join(meter: Meter, texts: list[Value], separator: str = "") -> str:
    if not all(isinstance(each, str) for each in texts):
        raise overload("join", texts, separator)
    _bound(meter, sum(map(len, texts)) + len(separator) * len(texts))
    return separator.join(texts)


def _sum(values: list[Value]) -> Value:
    if {each.__class__ for each in values} not in ({int}, {float}, set()):
        raise overload("sum", values)
    return sum(values)


_METERED: Final = {_joined, _matches, _replace, _join}


def _table(*rows: tuple[str, str, Type | None, Callable[..., Value]]) -> dict[str, dict[tuple[type, ...], Overload]]:
    """Overloads by name and by the classes of all arguments. A row says for each argument which kinds it may have, joined by `|`;
    those that may be left out end with `?`.
    """
    found: dict[str, dict[tuple[type, ...], Overload]] = {}
    for name, arguments, result, call in rows:
        words = arguments.split()
        classes = [
            [each for each, kind in KINDS.items() if word == "any" or kind in word.rstrip("?").split("|")] for word in words
        ]
        for length in range(sum("?" not in word for word in words), len(words) + 1):
            own = Overload(result, call, call in _METERED)
            found.setdefault(name, {}).update(dict.fromkeys(product(*classes[:length]), own))
    return found


_ARITHMETIC: Final = (("-_", 1, operator.neg), ("_+_", 2, operator.add), ("_-_", 2, operator.sub), ("_*_", 2, operator.mul))
_ORDERS: Final = {"_<_": operator.lt, "_<=_": operator.le, "_>_": operator.gt, "_>=_": operator.ge}
_ORDERED: Final = ("int|double int|double", *(f"{kind} {kind}" for kind in ("string", "bool", "bytes", _TIME, _SPAN)))
TABLE: Final = _table(
    ("!_", "bool", BOOL, operator.not_),
    ("-_", _SPAN, DURATION, lambda a: Duration(-a.nanos)),
    *((name, " ".join([kind.kind] * count), kind, does) for name, count, does in _ARITHMETIC for kind in (INT, DOUBLE)),
    ("_/_", "int int", INT, _divided),
    ("_/_", "double double", DOUBLE, _ratio),
    ("_%_", "int int", INT, _rest),
    ("_+_", "string string", STRING, _joined),
    ("_+_", "list list", list_of(DYN), _joined),
    ("_+_", f"{_SPAN} {_SPAN}", DURATION, lambda a, b: Duration(a.nanos + b.nanos)),
    ("_-_", f"{_SPAN} {_SPAN}", DURATION, lambda a, b: Duration(a.nanos - b.nanos)),
    ("_+_", f"{_TIME} {_SPAN}", TIMESTAMP, lambda a, b: Timestamp(a.nanos + b.nanos)),
    ("_+_", f"{_SPAN} {_TIME}", TIMESTAMP, lambda a, b: Timestamp(a.nanos + b.nanos)),
    ("_-_", f"{_TIME} {_SPAN}", TIMESTAMP, lambda a, b: Timestamp(a.nanos - b.nanos)),
    ("_-_", f"{_TIME} {_TIME}", DURATION, lambda a, b: Duration(a.nanos - b.nanos)),
    *((name, kinds, BOOL, order) for name, order in _ORDERS.items() for kinds in _ORDERED),
    ("size", "string|list|map", INT, len),
    ("int", f"int|double|string|{_TIME}|{_SPAN}", INT, _int),
    ("double", "int|double|string", DOUBLE, _double),
    ("string", f"string|int|{_TIME}|{_SPAN}|{_AMOUNT}", STRING, str),
    ("string", "bool", STRING, lambda value: "true" if value else "false"),
    ("dyn", "any", DYN, lambda value: value),
    ("type", "any", TYPE, lambda value: TypeOf(kind_of(value))),
    ("timestamp", "string", TIMESTAMP, Timestamp.parse),
    ("duration", "string", DURATION, Duration.parse),
    ("quantity", "string", QUANTITY, quantity.parse),
    ("isQuantity", "string", BOOL, _is_quantity),
    ("isURL", "string", BOOL, _is_url),
    (".size", "string|list|map", INT, len),
    (".contains", "string string", BOOL, operator.contains),
    (".startsWith", "string string", BOOL, str.startswith),
    (".endsWith", "string string", BOOL, str.endswith),
    (".lowerAscii", "string", STRING, lambda text: text.encode().lower().decode()),
    (".upperAscii", "string", STRING, lambda text: text.encode().upper().decode()),
    (".trim", "string", STRING, str.strip),
    (".substring", "string int int?", STRING, _substring),
    (".indexOf", "string string", INT, str.find),
    (".split", "string string", list_of(STRING), lambda text, separator: text.split(separator) if separator else list(text)),
    (".join", "list string?", STRING, _join),
    (".matches", "string string", BOOL, _matches),
    (".replace", "string string string", STRING, _replace),
    (".sum", "list", DYN, _sum),
    (".orValue", "optional_type any", None, lambda value, other: value.value if value.present else other),
    (".or", "optional_type optional_type", optional_of(DYN), lambda value, other: value if value.present else other),
    (".value", "optional_type", None, lambda value: value.get()),
    (".hasValue", "optional_type", BOOL, lambda value: value.present),
    (".isGreaterThan", f"{_AMOUNT} {_AMOUNT}", BOOL, operator.gt),
    (".isLessThan", f"{_AMOUNT} {_AMOUNT}", BOOL, operator.lt),
    (".compareTo", f"{_AMOUNT} {_AMOUNT}", INT, lambda one, other: (one > other) - (one < other)),
)
"""Operators, functions, and methods, whose names begin with a dot and which take their target as the first argument."""
