"""What happens when an expression is evaluated: reading of fields and items, truth, loops, calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from .errors import BudgetExceeded, EvaluationError
from .functions import BINARY, Function
from .values import NONE, Duration, Meter, Optional, Value, kind_of, overload

__all__ = ["Eval", "Frame", "call", "compute", "decided", "item_of", "negative", "optional", "read", "steps", "truth"]

Frame: TypeAlias = list[Any]
"""The meter, and then the values of all names of an expression."""
Eval: TypeAlias = Callable[[Frame], Value]
_UNNAMED: Final = {"contains", "startsWith", "endsWith", "matches"}  # functions whose failures do not name them


def truth(value: Value) -> bool:
    """A value that must be true or false."""
    if value.__class__ is not bool:
        raise overload()
    return bool(value)


def decided(runs: Iterable[Eval], frame: Frame, *, by: bool) -> bool:
    """Whether one of `runs` is `by`: such a one decides even when others fail."""
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


def negative(value: Value) -> Value:
    """`-value`."""
    if isinstance(value, Duration):
        return Duration(-value.nanos)
    if value.__class__ not in {int, float}:
        raise overload()
    if value == -(2**63):
        raise EvaluationError("integer overflow")
    return -value


def compute(meter: Meter, name: str, left: Value, right: Value) -> Value:
    """What an operator gives for two values."""
    found = BINARY.get((name, kind_of(left), kind_of(right)))
    if found is None:
        raise overload()
    return found[1](meter, left, right)


def read(value: Value, name: str, plain: str) -> Value:
    """The field that an expression calls `name` and the data `plain`."""
    if isinstance(value, list):
        raise EvaluationError("unsupported index type 'string' in list")
    for key in (plain, name) if isinstance(value, dict) else ():
        if key in value:
            return value[key]
    raise EvaluationError(f"no such key: {plain}")


def item_of(value: Value, index: Value) -> Value:
    """`value[index]`."""
    if isinstance(value, list):
        if isinstance(index, float) and index.is_integer():
            index = int(index)
        if index.__class__ is not int:
            raise EvaluationError(f"unsupported index type '{kind_of(index)}' in list")
        if not 0 <= index < len(value):
            raise EvaluationError(f"index out of bounds: {index}")
        return value[index]
    if isinstance(value, dict) and isinstance(index, str) and index in value:
        return value[index]
    raise EvaluationError(f"no such key: {str(index).lower() if isinstance(index, bool) else index}")


def optional(value: Value, get: Callable[[Value], Value]) -> Optional:
    """What can be read of a value, which may be absent itself."""
    if value.__class__ is Optional:
        if not value.present:
            return NONE
        value = value.value
    try:
        return Optional(get(value), present=True)
    except BudgetExceeded:
        raise
    except EvaluationError:
        return NONE


def call(meter: Meter, name: str, choices: Sequence[Function], args: list[Value]) -> Value:
    """A function, in the first of its overloads that takes the arguments."""
    kinds = [kind_of(each) for each in args]
    meter.spend(1 + sum(len(each) >> 5 for each in args if each.__class__ in {str, list}))
    for function in choices:
        if function.takes(kinds):
            return function.call(meter, *args)
    raise overload(*(() if name in _UNNAMED else (name, *args)))


def steps(frame: Frame, value: Value, slot: int, cost: int) -> Iterator[Value]:
    """Puts each item of a list or key of a map into the frame. A step costs `cost`."""
    if not isinstance(value, list | dict):
        raise EvaluationError(f"got 'types.{kind_of(value).capitalize()}', expected iterable type")
    for frame[slot] in value:
        frame[0].spend(cost)
        yield frame[slot]
