"""Variables that the CEL expressions of a flow can read, and the evaluation of these expressions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import msgspec

from pyroclast.api.enums import EntryPhase
from pyroclast.expressions import EvaluationError, ExpressionError, Program, compile_expression
from pyroclast.expressions.values import BOOL, DOUBLE, DYN, INT, LIST, MAP, STRING, Type, object_of
from pyroclast.lifecycle.flow.units import EntryState, Stage, Unit, UnitStage

BUDGET: Final = 50_000
"""The most operations of one evaluation: about ten milliseconds, many times the cost of reading a hundred targets."""

REMEMBERED: Final = 512
"""How many compiled expressions are cached."""

_COUNTS: Final = ("pending", "running", "succeeded", "failed")
_JOB: Final = {
    "phase": STRING,
    "exitCode": INT,
    "retries": INT,
    "restarts": INT,
    **dict.fromkeys(_COUNTS, INT),
    "tasks": MAP[MAP[INT]],
    "outputs": DYN,
}
_ENTRIES: Final = MAP[object_of(**_JOB, rounds=LIST[DYN])]
_COMMON: Final[Mapping[str, Type]] = {"entries": _ENTRIES, "parameters": MAP[DYN]}
_TARGETS: Final[Mapping[str, Type]] = {**_COMMON, "targets": _ENTRIES}
_ROUNDS: Final[Mapping[str, Type]] = {
    **_COMMON,
    "last": object_of(**_JOB, index=INT, item=STRING),
    "rounds": LIST[object_of(**_JOB, index=INT, item=STRING)],
}


class ExpressionProblem(Exception):
    """The expression does not compile, has no value, costs too much, or is not a boolean; the text says which."""


@dataclass(frozen=True, slots=True)
class Kinds:
    """The types that an expression may have, and their name in messages."""

    kinds: frozenset[str]
    name: str


CONDITION: Final = Kinds(frozenset({BOOL.kind, DYN.kind}), "true or false")
ITEMS: Final = Kinds(frozenset({LIST.kind, INT.kind, DYN.kind}), "a list or a number")
VALUE: Final = Kinds(frozenset({STRING.kind, BOOL.kind, INT.kind, DOUBLE.kind, DYN.kind}), "a string, a number or a boolean")


def check(source: str, wanted: Kinds, *, in_loop: bool = False) -> str:
    """Return the error of an expression, which is that of `until` if it is `in_loop`; empty when the expression is valid."""
    try:
        program = _compiled(source, in_loop)
    except ExpressionError as error:
        return error.problem
    return "" if program.type.kind in wanted.kinds else f"it must be {wanted.name}, but is of type {program.type}"


def value_of(source: str, values: Mapping[str, Any], *, in_loop: bool = False) -> Any:  # noqa: ANN401 - a JSON value
    """Return the value of an expression.

    Raises ExpressionProblem: the expression does not compile, has no value, or costs too much.
    """
    try:
        return _compiled(source, in_loop).evaluate(values, budget=BUDGET)
    except ExpressionError as error:
        raise ExpressionProblem(error.problem) from None
    except EvaluationError as error:
        raise ExpressionProblem(f"{error}{_explanation(source, values)}") from None


def _explanation(source: str, values: Mapping[str, Any]) -> str:
    """Return the end of an error message: which entries that `source` names have no outputs, and why; else empty."""
    if "outputs" not in source:
        return ""
    said = []
    for name, entry in values.get("entries", {}).items():
        if name in source and "outputs" not in entry:
            said.append(entry.get(_OMITTED) or f"{name} is {entry['phase'] or 'not started'} and put out nothing")
        elif name in source and isinstance(entry["outputs"], str):
            said.append(f"what {name} put out is a text, not JSON")
    return f" ({'; '.join(said)})" if said else ""


def holds(source: str, values: Mapping[str, Any], *, in_loop: bool = False) -> bool:
    """Whether the expression is true for `values`.

    Raises ExpressionProblem: the expression does not compile, has no value, costs too much, or is not a boolean.
    """
    value = value_of(source, values, in_loop=in_loop)
    if not isinstance(value, bool):
        raise ExpressionProblem(f"it must be true or false, but is {value!r}")
    return value


def entry_values(
    states: Mapping[str, EntryState], exit_codes: Mapping[str, int | None], parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the variables of all expressions but `until`: `entries`, also called `targets`, by name, and `parameters`."""
    targets = {}
    for name, state in states.items():
        rounds = [_values(unit, exit_codes) for unit in state.units]
        whole = dict(rounds[0]) if len(rounds) == 1 else dict(_NOTHING)
        is_loop = bool(state.units) and state.units[0].index is not None
        if is_loop and any("outputs" in part for part in rounds):
            whole["outputs"] = [part.get("outputs") for part in rounds]
        for part in rounds if len(rounds) > 1 else ():
            whole |= {count: whole[count] + part[count] for count in (*_COUNTS, "retries", "restarts")}
        if len(rounds) > 1:
            codes = [part.get("exitCode") for part in rounds]
            _set_exit_code(whole, next(filter(None, codes), None if None in codes else 0))
        phase = EntryPhase.SKIPPED.value if state.stage is Stage.SKIPPED else state.phase.value
        targets[name] = whole | {"phase": phase, "rounds": rounds if is_loop else []}
    return {"targets": targets, "entries": targets, "parameters": parameters}


def round_values(units: tuple[Unit, ...], exit_codes: Mapping[str, int | None]) -> dict[str, Any]:
    """Return the variables of `until`: `rounds`, the rounds that have ended, and `last`, the last of these rounds."""
    rounds = [
        _values(unit, exit_codes) | {"index": unit.index, "item": unit.item}
        for unit in units
        if unit.is_over and unit.index is not None
    ]
    return {"rounds": rounds, "last": rounds[-1] if rounds else None}


_NOTHING: Final[Mapping[str, Any]] = {
    "phase": "",
    "exitCode": 0,
    "retries": 0,
    "restarts": 0,
    **dict.fromkeys(_COUNTS, 0),
    "tasks": {},
}


def _values(unit: Unit, exit_codes: Mapping[str, int | None]) -> dict[str, Any]:
    """Return the variables of one Job. Counters are 0 when the Job no longer exists; an unknown exit code is left out."""
    phase = EntryPhase.RETRYING.value if unit.stage is UnitStage.RETRYING else unit.phase.value
    values = dict(_NOTHING) | {
        "phase": phase,
        "retries": unit.retries,
        "restarts": unit.known.restart_count if unit.known is not None else 0,
    }
    code = exit_codes.get(unit.name) if unit.recorded_code is None else unit.recorded_code
    _set_exit_code(values, code if unit.is_over_badly else code or 0)
    if unit.job is not None:
        status = unit.job.status
        values |= {count: getattr(status, count) for count in _COUNTS}
        values["restarts"] = status.retry_count
        values["tasks"] = {task: dict(state.phase) for task, state in status.task_status_count.items()}
    if unit.is_over and unit.known is not None and unit.known.outputs:
        values["outputs"] = _decoded(unit.known.outputs)
    if unit.is_over and unit.known is not None and unit.known.outputs_omitted:
        values[_OMITTED] = unit.known.outputs_omitted
    return values


_OMITTED: Final = "outputsOmitted"


@lru_cache(REMEMBERED)
def _decoded(outputs: str) -> Any:  # noqa: ANN401 - JSON
    try:
        return msgspec.json.decode(outputs)
    except (msgspec.DecodeError, RecursionError):  # another writer set the outputs
        return outputs


def _set_exit_code(values: dict[str, Any], code: int | None) -> None:
    """Set the exit code; an unknown code is left out, so that no expression can draw a conclusion from it."""
    if code is None:
        values.pop("exitCode", None)
    else:
        values["exitCode"] = code


@lru_cache(REMEMBERED)
def _compiled(source: str, in_loop: bool) -> Program:
    return compile_expression(source, _ROUNDS if in_loop else _TARGETS)
