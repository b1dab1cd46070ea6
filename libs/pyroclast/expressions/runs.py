"""What happens when an expression is evaluated: reading of fields and items, loops, calls, decisions that hide failures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from pyroclast.resources.patterns import BadPattern
from pyroclast.resources.quantity import QuantityError

from .errors import BudgetExceeded, EvaluationError
from .functions import Overload
from .values import NONE, Meter, Optional, Value, equal, kind_of, overload

__all__ = ["Eval", "Frame", "call", "contains", "decided", "item_of", "optional", "steps", "truth"]

Frame: TypeAlias = list[Any]
"""The meter, and then the values of all names of an expression."""
Eval: TypeAlias = Callable[[Frame], Value]
_UNNAMED: Final = {".contains", ".startsWith", ".endsWith", ".matches"}  # functions whose failures do not name them
_SIZED: Final = {str, list}
_TOO_LARGE: Final = "integer overflow"


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


def contains(meter: Meter, item: Value, holder: Value) -> bool:
    """`item in holder`."""
    if isinstance(holder, dict) and isinstance(item, str):
        return item in holder
    if not isinstance(holder, list | dict):
        raise overload()
    meter.spend(len(holder))
    return any(equal(meter, item, each) for each in holder)


def item_of(value: Value, index: Value, written: str | None = None) -> Value:
    """`value[index]`, or `value.written` where the data may call the field `index`."""
    if isinstance(value, dict) and isinstance(index, str):
        for key in (index, written):
            if key in value:
                return value[key]
    elif isinstance(value, list):
        place = int(index) if isinstance(index, float) and index.is_integer() else index
        if place.__class__ is not int:
            raise EvaluationError(f"unsupported index type '{kind_of(place)}' in list")
        if not 0 <= place < len(value):
            raise EvaluationError(f"index out of bounds: {place}")
        return value[place]
    raise EvaluationError(f"no such key: {str(index).lower() if isinstance(index, bool) else index}")


def optional(value: Value, index: Value, written: str | None = None) -> Optional:
    """An item of a value that may be absent itself, if it is there."""
    try:
        return Optional(item_of(value.get() if value.__class__ is Optional else value, index, written), present=True)
    except EvaluationError:
        return NONE


def call(meter: Meter, name: str, choices: Mapping[tuple[type, ...], Overload], args: list[Value]) -> Value:
    """A function, by the overload that takes the arguments."""
    meter.spend(1)
    for each in args:
        if each.__class__ in _SIZED:
            meter.spend(len(each) >> 5)
    if (found := choices.get(tuple(map(type, args)))) is None:
        raise overload(*(() if name in _UNNAMED or "_" in name else (name.removeprefix("."), *args)))
    try:
        value = found.call(meter, *args) if found.is_metered else found.call(*args)
    except (BadPattern, QuantityError) as error:
        raise EvaluationError(str(error)) from None
    except OverflowError:
        raise EvaluationError(_TOO_LARGE) from None
    except ValueError:
        raise EvaluationError(f"type conversion error from '{kind_of(args[0])}' to '{found.result}'") from None
    if value.__class__ is int and not -(2**63) <= value < 2**63:
        raise EvaluationError(_TOO_LARGE)
    return value


def steps(frame: Frame, value: Value, slot: int, cost: int) -> Iterator[Value]:
    """Puts each item of a list or key of a map into the frame. A step costs `cost`."""
    if not isinstance(value, list | dict):
        raise EvaluationError(f"got 'types.{kind_of(value).capitalize()}', expected iterable type")
    for frame[slot] in value:
        frame[0].spend(cost)
        yield frame[slot]
