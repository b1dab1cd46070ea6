"""The operators and functions of expressions, with what each takes and gives."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from pyroclast.resources import quantity
from pyroclast.resources.patterns import BadPattern, Pattern, compile_pattern

from .errors import EvaluationError
from .types import BOOL, DOUBLE, DURATION, DYN, INT, QUANTITY, STRING, TIMESTAMP, TYPE, Type, list_of, optional_of
from .values import Duration, Meter, Optional, Timestamp, TypeOf, Value, equal, kind_of, overload

__all__ = ["BINARY", "FUNCTIONS", "METHODS", "Function", "contains", "pattern_of"]

MAX_SIZE: Final = 1 << 20  # characters or items that an expression may put together: as much as an object may have
_MAX_PATTERN: Final = 1000  # characters
_LEAST, _MOST = -(2**63), 2**63 - 1
_WHOLE: Final = re.compile(r"[-+]?\d{1,19}", re.ASCII)
_DECIMAL: Final = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)


class Function(NamedTuple):
    """One overload: the kinds that each argument may have, how many are needed, the type of the result, and what does it."""

    kinds: tuple[frozenset[str], ...]
    needed: int
    result: Type
    call: Callable[..., Value]

    def takes(self, kinds: Sequence[str]) -> bool:
        """Whether arguments of these kinds fit; `dyn` may turn out to."""
        pairs = zip(kinds, self.kinds, strict=False)
        fits = all(kind in allowed or kind == "dyn" or "any" in allowed for kind, allowed in pairs)
        return fits and self.needed <= len(kinds) <= len(self.kinds)


def _checked(number: int) -> int:
    if not _LEAST <= number <= _MOST:
        raise EvaluationError("integer overflow")
    return number


def _bound(meter: Meter, size: int) -> None:
    """Before a text or list of that size is made."""
    meter.spend(size >> 3)
    if size > MAX_SIZE:
        raise EvaluationError(f"a text or list of more than {MAX_SIZE} characters or items")


def _joined(meter: Meter, left: Value, right: Value) -> Value:
    _bound(meter, len(left) + len(right))
    return left + right


def _divided(left: int, right: int) -> int:
    if right == 0:
        raise EvaluationError("division by zero")
    quotient = abs(left) // abs(right)
    return _checked(-quotient if (left < 0) != (right < 0) else quotient)


def _rest(left: int, right: int) -> int:
    if right == 0:
        raise EvaluationError("modulus by zero")
    return abs(left) % abs(right) * (-1 if left < 0 else 1)


def _ratio(left: float, right: float) -> float:
    if right != 0:
        return left / right
    return math.nan if left == 0 or math.isnan(left) else math.copysign(math.inf, left) * math.copysign(1, right)


def _order(compare: Callable[[Any, Any], bool]) -> Callable[[Meter, Any, Any], Value]:
    return lambda _, left, right: compare(left, right)


_TIME, _SPAN, _AMOUNT = TIMESTAMP.kind, DURATION.kind, QUANTITY.kind
_ORDERED: Final = ("int", "double", "string", "bool", "bytes", _TIME, _SPAN)
_ORDERS: Final = {"_<_": operator.lt, "_<=_": operator.le, "_>_": operator.gt, "_>=_": operator.ge}
BINARY: Final[Mapping[tuple[str, str, str], tuple[Type, Callable[[Meter, Any, Any], Value]]]] = {
    ("_+_", "int", "int"): (INT, lambda _, a, b: _checked(a + b)),
    ("_-_", "int", "int"): (INT, lambda _, a, b: _checked(a - b)),
    ("_*_", "int", "int"): (INT, lambda _, a, b: _checked(a * b)),
    ("_/_", "int", "int"): (INT, lambda _, a, b: _divided(a, b)),
    ("_%_", "int", "int"): (INT, lambda _, a, b: _rest(a, b)),
    ("_+_", "double", "double"): (DOUBLE, lambda _, a, b: a + b),
    ("_-_", "double", "double"): (DOUBLE, lambda _, a, b: a - b),
    ("_*_", "double", "double"): (DOUBLE, lambda _, a, b: a * b),
    ("_/_", "double", "double"): (DOUBLE, lambda _, a, b: _ratio(a, b)),
    ("_+_", "string", "string"): (STRING, _joined),
    ("_+_", "list", "list"): (list_of(DYN), _joined),
    ("_+_", _SPAN, _SPAN): (DURATION, lambda _, a, b: Duration(a.nanos + b.nanos)),
    ("_-_", _SPAN, _SPAN): (DURATION, lambda _, a, b: Duration(a.nanos - b.nanos)),
    ("_+_", _TIME, _SPAN): (TIMESTAMP, lambda _, a, b: Timestamp(a.nanos + b.nanos)),
    ("_+_", _SPAN, _TIME): (TIMESTAMP, lambda _, a, b: Timestamp(a.nanos + b.nanos)),
    ("_-_", _TIME, _SPAN): (TIMESTAMP, lambda _, a, b: Timestamp(a.nanos - b.nanos)),
    ("_-_", _TIME, _TIME): (DURATION, lambda _, a, b: Duration(a.nanos - b.nanos)),
    **{
        (name, left, right): (BOOL, _order(order))
        for name, order in _ORDERS.items()
        for left in _ORDERED
        for right in _ORDERED
        if left == right or {left, right} == {"int", "double"}
    },
}
"""By operator and the kinds of both sides."""


def contains(meter: Meter, item: Value, holder: Value) -> bool:
    """`item in holder`."""
    if isinstance(holder, dict) and isinstance(item, str):
        return item in holder
    if not isinstance(holder, list | dict):
        raise overload()
    meter.spend(len(holder))
    return any(equal(meter, item, each) for each in holder)


def pattern_of(text: str) -> Pattern:
    """A regular expression, compiled, or an EvaluationError where it is none or too long."""
    try:
        if len(text) <= _MAX_PATTERN:
            return compile_pattern(text)
    except BadPattern as error:
        raise EvaluationError(str(error)) from None
    raise EvaluationError(f"a regular expression of more than {_MAX_PATTERN} characters")


def _matches(meter: Meter, text: str, pattern: str) -> bool:
    meter.spend(len(text) * len(pattern) >> 8)
    return pattern_of(pattern).search(text) is not None


def _int(value: Value) -> int:
    match value:
        case float() if math.isnan(value) or not _LEAST < value < _MOST:
            raise EvaluationError("integer overflow")
        case str() if not _WHOLE.fullmatch(value) or not _LEAST <= int(value) <= _MOST:
            raise EvaluationError("type conversion error from 'string' to 'int'")
        case Duration():
            return value.nanos
        case Timestamp():
            return value.nanos // 10**9
        case _:
            return int(value)


def _double(value: Value) -> float:
    if isinstance(value, str) and not _DECIMAL.fullmatch(value):
        raise EvaluationError("type conversion error from 'string' to 'double'")
    return float(value)


def _quantity(text: str) -> quantity.Quantity:
    try:
        return quantity.parse(text)
    except quantity.QuantityError as error:
        raise EvaluationError(str(error)) from None


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
    return sum(values) if values and values[0].__class__ is float else _checked(sum(values))


def _value(value: Optional) -> Value:
    if not value.present:
        raise EvaluationError("optional.none() dereference")
    return value.value


def _table(*rows: tuple[str, str, Type, Callable[..., Value]], metered: bool = False) -> dict[str, list[Function]]:
    """Functions by name. Arguments are the kinds they may have, joined by `|`; those that may be left out end with `?`."""
    found: dict[str, list[Function]] = {}
    for name, arguments, result, call in rows:
        words = arguments.split()
        kinds = tuple(frozenset(word.rstrip("?").split("|")) for word in words)
        does = call if metered else (lambda _, *args, call=call: call(*args))
        found.setdefault(name, []).append(Function(kinds, sum("?" not in word for word in words), result, does))
    return found


FUNCTIONS: Final = _table(
    ("size", "string|list|map", INT, len),
    ("int", f"int|double|string|{_TIME}|{_SPAN}", INT, _int),
    ("double", "int|double|string", DOUBLE, _double),
    ("string", f"string|int|{_TIME}|{_SPAN}|{_AMOUNT}", STRING, str),
    ("string", "bool", STRING, lambda value: "true" if value else "false"),
    ("dyn", "any", DYN, lambda value: value),
    ("type", "any", TYPE, lambda value: TypeOf(kind_of(value))),
    ("timestamp", "string", TIMESTAMP, Timestamp.parse),
    ("duration", "string", DURATION, Duration.parse),
    ("quantity", "string", QUANTITY, _quantity),
    ("isQuantity", "string", BOOL, _is_quantity),
    ("isURL", "string", BOOL, _is_url),
)
METHODS: Final = _table(
    ("size", "string|list|map", INT, len),
    ("contains", "string string", BOOL, lambda text, part: part in text),
    ("startsWith", "string string", BOOL, str.startswith),
    ("endsWith", "string string", BOOL, str.endswith),
    ("lowerAscii", "string", STRING, lambda text: text.encode().lower().decode()),
    ("upperAscii", "string", STRING, lambda text: text.encode().upper().decode()),
    ("trim", "string", STRING, str.strip),
    ("substring", "string int int?", STRING, _substring),
    ("indexOf", "string string", INT, str.find),
    ("split", "string string", list_of(STRING), lambda text, separator: text.split(separator) if separator else list(text)),
    ("sum", "list", DYN, _sum),
    ("orValue", "optional_type any", DYN, lambda value, other: value.value if value.present else other),
    ("or", "optional_type optional_type", optional_of(DYN), lambda value, other: value if value.present else other),
    ("value", "optional_type", DYN, _value),
    ("hasValue", "optional_type", BOOL, lambda value: value.present),
    ("isGreaterThan", f"{_AMOUNT} {_AMOUNT}", BOOL, operator.gt),
    ("isLessThan", f"{_AMOUNT} {_AMOUNT}", BOOL, operator.lt),
    ("compareTo", f"{_AMOUNT} {_AMOUNT}", INT, lambda one, other: (one > other) - (one < other)),
) | _table(
    ("matches", "string string", BOOL, _matches),
    ("replace", "string string string", STRING, _replace),
    ("join", "list string?", STRING, _join),
    metered=True,
)  # fmt: skip
