"""Reduces the memory of decoded records: equal parts of many objects are stored once, and no record refers to its whole page.

Pods of one Job differ in names, times and addresses; their containers, tolerations and labels are equal. Until it is copied, raw
JSON refers to all the bytes that were decoded together with it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cache
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec.structs import force_setattr

REMEMBERED: Final = 2048
"""The most values that are remembered. When the limit is reached all are forgotten, and frequent values are soon remembered
again.
"""

_UNIQUE: Final = frozenset({"uid", "resource_version", "pod_ip", "message"})
"""Fields whose texts are almost never equal in two objects."""

_EMPTY: Final[dict[str, Any]] = {}
_Mend = Callable[[Any], Any]


class Compactor:
    """Reduces the memory of records of one type, each directly after it was decoded, before other code has a reference to it."""

    def __init__(self, record: type) -> None:
        self._fields = {name: tuple(self._mends(type_)) for name, type_ in _hints(record).items() if _is_struct(type_)}
        self._encode = msgspec.json.Encoder().encode
        self._known: dict[bytes, Any] = {}

    def __call__(self, record: msgspec.Struct) -> None:
        """Replace parts of `record` by equal parts that are already in memory."""
        for name, mends in self._fields.items():
            part = getattr(record, name)
            if part is None:
                continue
            for field, mend in mends:
                value = getattr(part, field)
                if value.__class__ is str:
                    force_setattr(part, field, sys.intern(value))
                elif value:
                    force_setattr(part, field, mend(value))
                elif value.__class__ is dict:
                    force_setattr(part, field, _EMPTY)

    def _mends(self, struct: type) -> list[tuple[str, _Mend]]:
        """Return the fields of a part of an object that can be reduced, each with the function that reduces it."""
        mends: list[tuple[str, _Mend]] = []
        for name, type_ in _hints(struct).items():
            kinds = _kinds(type_)
            if msgspec.Raw in kinds:
                mends.append((name, _owner_of(type_)))
            elif name in {"labels", "annotations"}:
                mends.append((name, _interned))
            elif any(isinstance(kind, type) and issubclass(kind, msgspec.Struct | dict | tuple | Mapping) for kind in kinds):
                mends.append((name, self._shared))
            elif str in kinds and name not in _UNIQUE and not (name == "name" and "uid" in struct.__annotations__):
                mends.append((name, sys.intern))
        return mends

    def _shared(self, value: Any) -> Any:  # noqa: ANN401 - any part of a record
        known = self._known
        if len(known) >= REMEMBERED:
            known.clear()
        return known.setdefault(self._encode(value), value)


def _owner_of(type_: Any) -> _Mend:  # noqa: ANN401 - any annotation
    """Return a function that copies the raw JSON in a value of type `type_`.

    The function is made once for each type, because it runs for each object. It only visits members that contain raw JSON.
    """
    origin = get_origin(type_)
    if type_ is msgspec.Raw:
        return _owned
    if origin in {Union, UnionType}:
        (one,) = (each for each in get_args(type_) if _holds_raw(each))
        inner = _owner_of(one)
        return lambda value: value if value is None else inner(value)
    if origin is tuple:
        item = _owner_of(get_args(type_)[0])
        return lambda values: tuple([item(value) for value in values])
    fields = [(name, _owner_of(each)) for name, each in _hints(type_).items() if _holds_raw(each)]

    def own(value: Any) -> Any:  # noqa: ANN401 - any part of a record
        for name, mend in fields:
            part = getattr(value, name)
            if part is not None:
                force_setattr(value, name, mend(part))
        return value

    return own


def _owned(raw: msgspec.Raw) -> msgspec.Raw:
    return msgspec.Raw() if bytes(raw) == b"null" else raw.copy()


def _holds_raw(type_: object) -> bool:
    return msgspec.Raw in _kinds(type_)


def _interned(texts: dict[str, str]) -> dict[str, str]:
    intern = sys.intern
    return {intern(name): intern(text) for name, text in texts.items()}


@cache
def _hints(struct: type) -> Mapping[str, Any]:
    """Return the types of the fields of `struct`."""
    hints = get_type_hints(struct)
    return {name: hints[name] for name in struct.__struct_fields__}  # type: ignore[attr-defined]


def _is_struct(type_: object) -> bool:
    return isinstance(type_, type) and issubclass(type_, msgspec.Struct)


@cache
def _kinds(type_: Any) -> frozenset[Any]:  # noqa: ANN401 - any annotation
    """Return the type itself, the types that it consists of, and `msgspec.Raw` if any of them contains raw JSON."""
    found: set[Any] = set()
    pending = [type_]
    while pending:
        one = pending.pop()
        origin = get_origin(one)
        if origin in {Union, UnionType}:
            pending += get_args(one)
        elif origin is not None:
            found.add(origin)
            if any(msgspec.Raw in _kinds(each) for each in get_args(one)):
                found.add(msgspec.Raw)
        else:
            found.add(one)
            if _is_struct(one) and any(msgspec.Raw in _kinds(each) for each in _hints(one).values()):
                found.add(msgspec.Raw)
    return frozenset(found)
