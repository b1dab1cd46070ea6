"""Functions of lists and sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cmp_to_key
from typing import Final

from pyroclast_standalone.apiserver.documents.values import Json

from .errors import CelError, NoSuchOverload
from .operators import OPERATORS
from .values import NONE, Duration, Optional, equal, less

__all__ = ["LIST_METHODS", "LIST_QUALIFIED"]

_LONGEST_RANGE: Final = 1_000_000
_add = OPERATORS["_+_"]


def _list(value: Json) -> list[Json]:
    if not isinstance(value, list):
        raise NoSuchOverload
    return value


def _is_sorted(values: Json) -> bool:
    own = _list(values)
    return all(not less(own[at + 1], own[at]) for at in range(len(own) - 1))


def _sum(values: Json) -> Json:
    own = _list(values)
    if not own:
        return 0
    total = own[0]
    if not isinstance(total, int | float | Duration):
        raise NoSuchOverload
    for value in own[1:]:
        total = _add(total, value)
    return total


def _least(values: Json) -> Json:
    own = _list(values)
    if not own:
        raise CelError("min called on empty list")
    best = own[0]
    for value in own[1:]:
        best = value if less(value, best) else best
    return best


def _greatest(values: Json) -> Json:
    own = _list(values)
    if not own:
        raise CelError("max called on empty list")
    best = own[0]
    for value in own[1:]:
        best = value if less(best, value) else best
    return best


def _index_of(values: Json, wanted: Json) -> int:
    return next((at for at, value in enumerate(_list(values)) if equal(value, wanted)), -1)


def _last_index_of(values: Json, wanted: Json) -> int:
    own = _list(values)
    return next((at for at in range(len(own) - 1, -1, -1) if equal(own[at], wanted)), -1)


def _distinct(values: Json) -> list[Json]:
    result: list[Json] = []
    for value in _list(values):
        if not any(equal(value, each) for each in result):
            result.append(value)
    return result


def _flatten(values: Json, depth: int = 1) -> list[Json]:
    result: list[Json] = []
    for value in _list(values):
        if isinstance(value, list) and depth > 0:
            result.extend(_flatten(value, depth - 1))
        else:
            result.append(value)
    return result


def _slice(values: Json, start: int, end: int) -> list[Json]:
    own = _list(values)
    if not 0 <= start <= end <= len(own):
        raise CelError(f"cannot slice({start}, {end}), list is length {len(own)}")
    return own[start:end]


def _compare(left: Json, right: Json) -> int:
    return -1 if less(left, right) else int(less(right, left))


def _includes(values: Json, wanted: Json) -> bool:
    if isinstance(values, str):
        raise NoSuchOverload
    return any(equal(each, wanted) for each in _list(values))


def _set_contains(values: Json, wanted: Json) -> bool:
    return all(_includes(values, each) for each in _list(wanted))


def _equivalent(left: Json, right: Json) -> bool:
    return _set_contains(left, right) and _set_contains(right, left)


def _intersects(left: Json, right: Json) -> bool:
    return any(_includes(right, each) for each in _list(left))


def _reversed(values: Json) -> list[Json]:
    return _list(values)[::-1]


def _sorted(values: Json) -> list[Json]:
    return sorted(_list(values), key=cmp_to_key(_compare))


def _end(values: Json, at: int) -> Optional:
    own = _list(values)
    return Optional(own[at], present=True) if own else NONE


LIST_METHODS: Final[Mapping[str, Callable[..., Json]]] = {
    "isSorted": _is_sorted,
    "sum": _sum,
    "min": _least,
    "max": _greatest,
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "distinct": _distinct,
    "flatten": _flatten,
    "slice": _slice,
    "sort": _sorted,
    "reverse": _reversed,
    "first": lambda values: _end(values, 0),
    "last": lambda values: _end(values, -1),
}


def _range(count: Json) -> Json:
    if count > _LONGEST_RANGE:
        raise CelError("operation cancelled: actual cost limit exceeded")
    return list(range(count))


LIST_QUALIFIED: Final[Mapping[str, Callable[..., Json]]] = {
    "sets.contains": _set_contains,
    "sets.equivalent": _equivalent,
    "sets.intersects": _intersects,
    "lists.range": _range,
}
