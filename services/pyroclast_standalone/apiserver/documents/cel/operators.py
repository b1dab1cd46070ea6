"""Arithmetic, order, membership."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from operator import ge, gt, le, lt
from typing import Final

from pyroclast_standalone.apiserver.documents.values import Json

from .errors import CelError
from .values import Duration, Uint, equal, overload

__all__ = ["OPERATORS"]

_MIN, _MAX = -(2**63), 2**63 - 1
_NUMBERS: Final = frozenset({int, Uint, float})
_ORDERED: Final = _NUMBERS | {bool, str, bytes, Duration, datetime}


def _refused(name: str, left: Json, takes: AbstractSet[type]) -> CelError:
    """The failure of an operator: it tells its name when its left side is of a kind for which it means nothing."""
    return overload() if left.__class__ in takes else CelError(f"no such overload: {name}")


def _integer(value: int, kind: type) -> int:
    if kind is Uint:
        if not 0 <= value < 2**64:
            raise CelError("unsigned integer overflow")
        return Uint(value)
    if not _MIN <= value <= _MAX:
        raise CelError("integer overflow")
    return value


def _moved(moment: datetime, nanos: int) -> datetime:
    try:
        return moment + timedelta(microseconds=nanos / 1000)
    except OverflowError:
        raise CelError("timestamp overflow") from None


def _add(left: Json, right: Json) -> Json:
    mine, theirs = left.__class__, right.__class__
    if mine is theirs:
        if mine is int or mine is Uint:
            return _integer(int(left) + int(right), mine)
        if mine in {float, str, bytes, list}:
            return left + right
        if mine is Duration:
            return Duration(left.nanos + right.nanos)
    if isinstance(left, datetime) and isinstance(right, Duration):
        return _moved(left, right.nanos)
    if isinstance(left, Duration) and isinstance(right, datetime):
        return _moved(right, left.nanos)
    raise _refused("_+_", left, _NUMBERS | {str, bytes, list, Duration, datetime})


def _subtract(left: Json, right: Json) -> Json:
    mine, theirs = left.__class__, right.__class__
    if mine is theirs:
        if mine is int or mine is Uint:
            return _integer(int(left) - int(right), mine)
        if mine is float:
            return left - right
        if mine is Duration:
            return Duration(left.nanos - right.nanos)
        if isinstance(left, datetime):
            return Duration(round((left - right).total_seconds() * 10**9))
    if isinstance(left, datetime) and isinstance(right, Duration):
        return _moved(left, -right.nanos)
    raise _refused("_-_", left, _NUMBERS | {str, Duration, datetime})


def _multiply(left: Json, right: Json) -> Json:
    mine = left.__class__
    if mine is right.__class__:
        if mine is int or mine is Uint:
            return _integer(int(left) * int(right), mine)
        if mine is float:
            return left * right
    raise _refused("_*_", left, _NUMBERS | {str})


def _divide(left: Json, right: Json) -> Json:
    mine = left.__class__
    if mine is right.__class__:
        if mine is int or mine is Uint:
            if right == 0:
                raise CelError("division by zero")
            quotient = abs(int(left)) // abs(int(right))
            return _integer(-quotient if (left < 0) != (right < 0) else quotient, mine)
        if mine is float:
            if right == 0:
                return math.nan if left == 0 or math.isnan(left) else math.copysign(math.inf, left) * math.copysign(1, right)
            return left / right
    raise _refused("_/_", left, _NUMBERS | {str})


def _remainder(left: Json, right: Json) -> Json:
    mine = left.__class__
    if mine is right.__class__ and (mine is int or mine is Uint):
        if right == 0:
            raise CelError("modulus by zero")
        return _integer(int(math.fmod(left, right)) if abs(left) < 2**52 else left - right * int(left / right), mine)
    raise _refused("_%_", left, {int, Uint, str})


def _negate(value: Json) -> Json:
    if value.__class__ is int:
        return _integer(-value, int)
    if value.__class__ is float:
        return -value
    if isinstance(value, Duration):
        return Duration(-value.nanos)
    raise overload()


def _not(value: Json) -> bool:
    if value.__class__ is not bool:
        raise overload()
    return not value


def _contains(item: Json, holder: Json) -> bool:
    if isinstance(holder, dict):
        return any(equal(key, item) for key in holder) if not isinstance(item, str) else item in holder
    if isinstance(holder, list):
        return any(equal(each, item) for each in holder)
    raise overload()


def _order(name: str, compare: Callable[[Json, Json], bool]) -> Callable[[Json, Json], bool]:
    def apply(left: Json, right: Json) -> bool:
        mine, theirs = left.__class__, right.__class__
        if (mine is theirs and mine in _ORDERED) or (mine in _NUMBERS and theirs in _NUMBERS):
            return compare(left, right)
        raise _refused(name, left, _ORDERED)

    return apply


OPERATORS: Final[Mapping[str, Callable[..., Json]]] = {
    "_+_": _add,
    "_-_": _subtract,
    "_*_": _multiply,
    "_/_": _divide,
    "_%_": _remainder,
    "-_": _negate,
    "!_": _not,
    "_==_": equal,
    "_!=_": lambda left, right: not equal(left, right),
    "_<_": _order("_<_", lt),
    "_<=_": _order("_<=_", le),
    "_>_": _order("_>_", gt),
    "_>=_": _order("_>=_", ge),
    "@in": _contains,
}
"""What stands behind each operator."""
