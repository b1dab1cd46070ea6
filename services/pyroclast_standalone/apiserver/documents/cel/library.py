"""Functions of expressions: those of the language, of its usual extensions, and of Kubernetes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pyroclast_standalone.apiserver.documents.values import Json

from .errors import CelError, NoSuchOverload
from .functions_kubernetes import KUBERNETES_FUNCTIONS, KUBERNETES_METHODS, KUBERNETES_QUALIFIED
from .functions_lists import LIST_METHODS, LIST_QUALIFIED
from .functions_strings import STRING_METHODS, STRING_QUALIFIED
from .functions_times import TIME_FUNCTIONS, TIME_METHODS, duration, timestamp
from .functions_values import OPTIONAL_QUALIFIED, VALUE_FUNCTIONS, VALUE_METHODS
from .types import BYTES, DOUBLE, DURATION, TIMESTAMP, Type
from .values import overload, type_name

__all__ = ["FUNCTIONS", "METHODS", "QUALIFIED", "convert"]


_UNNAMED: Final = {"contains", "startsWith", "endsWith", "matches"}
_ALONE: Final = {"size", "sort"}
"""Functions whose name stands without the types of their arguments when they take none of these."""


def _any_of(choices: list[Callable[..., Json]]) -> Callable[..., Json]:
    """The first of several functions of one name that takes the arguments."""
    if len(choices) == 1:
        return choices[0]

    def call(*args: Json) -> Json:
        for choice in choices:
            try:
                return choice(*args)
            except NoSuchOverload:
                continue
        raise NoSuchOverload

    return call


def _merged(*tables: Mapping[str, Callable[..., Json]]) -> dict[str, Callable[..., Json]]:
    found: dict[str, list[Callable[..., Json]]] = {}
    for table in tables:
        for name, function in table.items():
            found.setdefault(name, []).append(function)
    return {name: _guarded(name, _any_of(choices)) for name, choices in found.items()}


def _guarded(name: str, function: Callable[..., Json]) -> Callable[..., Json]:
    def call(*args: Json) -> Json:
        try:
            return function(*args)
        except (NoSuchOverload, TypeError, AttributeError):
            if name in _UNNAMED:
                raise overload() from None
            given = "" if name in _ALONE else f"({', '.join(map(type_name, args))})"
            raise CelError(f"no such overload: {name}{given}") from None
        except OverflowError:
            raise CelError("range error") from None

    return call


FUNCTIONS: Final = _merged(VALUE_FUNCTIONS, TIME_FUNCTIONS, KUBERNETES_FUNCTIONS)
"""Called as `name(args)`."""
METHODS: Final = _merged(VALUE_METHODS, STRING_METHODS, LIST_METHODS, TIME_METHODS, KUBERNETES_METHODS)
"""Called as `target.name(args)`."""
QUALIFIED: Final = _merged(OPTIONAL_QUALIFIED, STRING_QUALIFIED, LIST_QUALIFIED, KUBERNETES_QUALIFIED)
"""Called as `space.name(args)`."""


def _to_double(value: Json) -> Json:
    return float(value) if value.__class__ is int else value


def _to_time(value: Json) -> Json:
    return timestamp(value) if isinstance(value, str) else value


def _to_duration(value: Json) -> Json:
    return duration(value) if isinstance(value, str) else value


def _to_bytes(value: Json) -> Json:
    from base64 import b64decode  # noqa: PLC0415  # one rare use

    return b64decode(value) if isinstance(value, str) else value


_CONVERSIONS: Final = {TIMESTAMP.kind: _to_time, DURATION.kind: _to_duration, BYTES.kind: _to_bytes, DOUBLE.kind: _to_double}


def convert(kind: Type | None) -> Callable[[Json], Json] | None:
    """How a value of JSON becomes one of that type; None where it is one already."""
    return None if kind is None else _CONVERSIONS.get(kind.kind)
