"""Operators, functions and macros of expressions, in tables with their arguments, results and implementations."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from pyroclast.expressions import values as t
from pyroclast.resources import quantity
from pyroclast.resources.patterns import BadPattern, compile_pattern

from .values import KINDS, BudgetExceeded, Duration, EvaluationError, Frame, Timestamp, Value, held, overload, spend, truth

Eval: TypeAlias = Callable[[Frame], Value]
_UNNAMED: Final = {".contains", ".startsWith", ".endsWith", ".matches"}  # functions whose errors do not name the function
_SIZED: Final = {str, list}
_MAX_SIZE: Final = 1 << 20  # the most characters of a text that an expression builds: as many as an object may have
_MAX_PATTERN: Final = 1000  # characters
_DECIMAL: Final = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)
_TIME, _SPAN, _AMOUNT = t.TIMESTAMP.kind, t.DURATION.kind, t.QUANTITY.kind


class Overload(NamedTuple):
    """The result type of a function for arguments of certain kinds (None: the item type of the first), and its implementation.

    `call` raises ValueError for values that it cannot convert.
    """

    result: t.Type | None
    call: Callable[..., Value]
    is_metered: bool  # whether `call` takes the frame as its first argument


def _quotient(left: int, right: int, what: str) -> int:
    """Return the quotient of whole numbers, rounded towards zero."""
    if right == 0:
        raise EvaluationError(f"{what} by zero")
    quotient = abs(left) // abs(right)
    return -quotient if (left < 0) != (right < 0) else quotient


def _matches(frame: Frame, text: str, pattern: str) -> bool:
    if len(pattern) > _MAX_PATTERN:
        raise EvaluationError(f"a regular expression of more than {_MAX_PATTERN} characters")
    spend(frame, len(text) * len(pattern) >> 8)
    return compile_pattern(pattern).search(text) is not None


def _decimal(text: str) -> str:
    if not _DECIMAL.fullmatch(text):
        raise ValueError(text)
    return text


def _is_quantity(text: str) -> bool:
    try:
        quantity.parse(text)
    except quantity.QuantityError:
        return False
    return True


def _is_url(text: str) -> bool:
    """Whether `text` is an absolute URI or an absolute path."""
    try:
        parts = urlsplit(text)
        return text.startswith("/") or (bool(parts.scheme) and parts.port != 0 and " " not in parts.netloc)
    except ValueError:  # invalid brackets or an invalid port
        return False


def _join(texts: list[Value], separator: str = "") -> str:
    if not all(isinstance(each, str) for each in texts):
        raise overload("join", texts, separator)
    if sum(map(len, texts)) + len(separator) * len(texts) > _MAX_SIZE:
        raise EvaluationError(f"a text of more than {_MAX_SIZE} characters")
    return separator.join(texts)


def _sum(values: list[Value]) -> Value:
    if {each.__class__ for each in values} not in ({int}, {float}, set()):
        raise overload("sum", values)
    return sum(values)


def _table(*rows: tuple[str, str, t.Type | None, Callable[..., Value]]) -> dict[str, dict[tuple[type, ...], Overload]]:
    """Return overloads by name and by the classes of all arguments. Each row gives the allowed kinds of each argument."""
    found: dict[str, dict[tuple[type, ...], Overload]] = {}
    for name, arguments, result, call in rows:
        classes = [
            [each for each, kind in KINDS.items() if kind in word.split("|") or word == "any"] for word in arguments.split()
        ]
        found.setdefault(name, {}).update(dict.fromkeys(product(*classes), Overload(result, call, call is _matches)))
    return found


_ARITHMETIC: Final = (("-_", 1, operator.neg), ("_+_", 2, operator.add), ("_-_", 2, operator.sub), ("_*_", 2, operator.mul))
_ORDERS: Final = {"_<_": operator.lt, "_<=_": operator.le, "_>_": operator.gt, "_>=_": operator.ge}
_ORDERED: Final = ("int|double int|double", *(f"{kind} {kind}" for kind in ("string", "bool", "bytes", _TIME, _SPAN)))
TABLE: Final = _table(
    ("!_", "bool", t.BOOL, operator.not_),
    *((name, " ".join([kind.kind] * count), kind, does) for name, count, does in _ARITHMETIC for kind in (t.INT, t.DOUBLE)),
    ("_/_", "int int", t.INT, lambda a, b: _quotient(a, b, "division")),
    ("_/_", "double double", t.DOUBLE, lambda a, b: a / b if b else a * math.copysign(math.inf, b)),
    ("_%_", "int int", t.INT, lambda a, b: a - b * _quotient(a, b, "modulus")),
    ("_+_", "string string", t.STRING, operator.add),
    ("_+_", "list list", t.LIST[t.DYN], operator.add),
    *((name, kinds, t.BOOL, order) for name, order in _ORDERS.items() for kinds in _ORDERED),
    ("size", "string|list|map", t.INT, len),
    ("int", "int", t.INT, int),
    ("int", "double", t.INT, lambda value: int(value) if abs(value) < 2**63 else 2**63),
    ("int", "string", t.INT, lambda text: int(_decimal(text))),
    ("double", "int|double", t.DOUBLE, float),
    ("double", "string", t.DOUBLE, lambda text: float(_decimal(text))),
    ("string", f"string|int|{_AMOUNT}", t.STRING, str),
    ("string", "bool", t.STRING, lambda value: "true" if value else "false"),
    ("dyn", "any", t.DYN, lambda value: value),
    ("type", "any", t.TYPE, type),
    ("timestamp", "string", t.TIMESTAMP, Timestamp),
    ("duration", "string", t.DURATION, Duration),
    ("quantity", "string", t.QUANTITY, quantity.parse),
    ("isQuantity", "string", t.BOOL, _is_quantity),
    ("isURL", "string", t.BOOL, _is_url),
    (".size", "string|list|map", t.INT, len),
    (".contains", "string string", t.BOOL, operator.contains),
    (".startsWith", "string string", t.BOOL, str.startswith),
    (".endsWith", "string string", t.BOOL, str.endswith),
    (".lowerAscii", "string", t.STRING, lambda text: text.encode().lower().decode()),
    (".upperAscii", "string", t.STRING, lambda text: text.encode().upper().decode()),
    (".trim", "string", t.STRING, str.strip),
    (".split", "string string", t.LIST[t.STRING], lambda text, separator: text.split(separator) if separator else list(text)),
    (".join", "list", t.STRING, _join),
    (".join", "list string", t.STRING, _join),
    (".matches", "string string", t.BOOL, _matches),
    (
        ".replace",
        "string string string",
        t.STRING,
        lambda text, old, new: _join(text.split(old) if old else ["", *text, ""], new),
    ),
    (".sum", "list", t.DYN, _sum),
    (".orValue", "optional_type any", None, lambda value, other: value[0] if value else other),
    (".or", "optional_type optional_type", t.OPTIONAL[t.DYN], lambda value, other: value or other),
    (".value", "optional_type", None, held),
    (".hasValue", "optional_type", t.BOOL, bool),
    (".isGreaterThan", f"{_AMOUNT} {_AMOUNT}", t.BOOL, operator.gt),
    (".isLessThan", f"{_AMOUNT} {_AMOUNT}", t.BOOL, operator.lt),
    (".compareTo", f"{_AMOUNT} {_AMOUNT}", t.INT, lambda one, other: (one > other) - (one < other)),
)
"""Operators, functions and methods. The name of a method begins with a dot, and its target is the first argument."""


def call(frame: Frame, name: str, choices: Mapping[tuple[type, ...], Overload], args: list[Value]) -> Value:
    """Call a function, by the overload for the classes of the arguments."""
    spend(frame, 1)
    for each in args:
        if each.__class__ in _SIZED:
            spend(frame, len(each) >> 5)
    if (found := choices.get(tuple(map(type, args)))) is None:
        raise overload(*(() if name in _UNNAMED or "_" in name else (name.removeprefix("."), *args)))
    try:
        value = found.call(frame, *args) if found.is_metered else found.call(*args)
    except (BadPattern, quantity.QuantityError) as error:
        raise EvaluationError(str(error)) from None
    except ValueError:
        raise EvaluationError(f"type conversion error from '{KINDS[args[0].__class__]}' to '{found.result}'") from None
    if value.__class__ in _SIZED:
        spend(frame, len(value) >> 3)
    if value.__class__ is int and not -(2**63) <= value < 2**63:
        raise EvaluationError("integer overflow")
    return value


def decided(runs: Iterable[Eval], frame: Frame, *, by: bool) -> bool:
    """Whether one of `runs` has the value `by`; such a value decides even when other parts fail."""
    failure: EvaluationError | None = None
    for run in runs:
        try:
            if truth(run(frame)) is by:
                return True
        except BudgetExceeded:
            raise
        except EvaluationError as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return False


def steps(frame: Frame, value: Value, slot: int, cost: int) -> Iterator[Value]:
    """Put each item of a list, or each key of a map, into the frame in turn. A step costs `cost`."""
    if not isinstance(value, list | dict):
        raise EvaluationError(f"got 'types.{KINDS[value.__class__].capitalize()}', expected iterable type")
    for frame[slot] in value:
        spend(frame, cost)
        yield frame[slot]


LOOPS: Final[Mapping[str, Callable[..., Callable[[Frame, Iterator[Value]], Value]]]] = {
    "all": lambda test: lambda frame, items: not decided((test for _ in items), frame, by=False),
    "exists": lambda test: lambda frame, items: decided((test for _ in items), frame, by=True),
    "exists_one": lambda test: lambda frame, items: sum(truth(test(frame)) for _ in items) == 1,
    "existsOne": lambda test: lambda frame, items: sum(truth(test(frame)) for _ in items) == 1,
    "filter": lambda test: lambda frame, items: [each for each in items if truth(test(frame))],
    "map": lambda made, *tests: lambda frame, items: [made(frame) for _ in items if all(truth(test(frame)) for test in tests)],
}
"""Macros: each returns a function of the frame and the items. Its arguments evaluate the parts of the macro, the last part first,
with the current item in the frame.
"""
