"""Variables that the CEL expressions of a flow can read, and the evaluation of these expressions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from pyroclast.api.enums import EntryPhase
from pyroclast.api.records import FlowEntry
from pyroclast.expressions import EvaluationError, ExpressionError, Program, compile_expression
from pyroclast.expressions.values import BOOL, DYN, INT, LIST, MAP, STRING, Type, object_of
from pyroclast.lifecycle.flow.units import EntryState, Stage, Unit, UnitStage, item_of

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
}
_TARGETS: Final[Mapping[str, Type]] = {"targets": MAP[object_of(**_JOB, rounds=LIST[DYN])]}
_ROUNDS: Final[Mapping[str, Type]] = {
    "last": object_of(**_JOB, index=INT, item=STRING),
    "rounds": LIST[object_of(**_JOB, index=INT, item=STRING)],
}


class ExpressionProblem(Exception):
    """The expression does not compile, has no value, costs too much, or is not a boolean; the text says which."""


def check(source: str, *, in_loop: bool) -> str:
    """Return the error of an expression of `if`, or of `until` (`in_loop`); empty when the expression is valid."""
    try:
        program = _compiled(source, in_loop)
    except ExpressionError as error:
        return error.problem
    if program.type.kind not in (BOOL.kind, DYN.kind):
        return f"it must be true or false, but is of type {program.type}"
    return ""


def holds(source: str, values: Mapping[str, Any], *, in_loop: bool = False) -> bool:
    """Whether the expression is true for `values`.

    Raises ExpressionProblem: the expression does not compile, has no value, costs too much, or is not a boolean.
    """
    try:
        value = _compiled(source, in_loop).evaluate(values, budget=BUDGET)
    except ExpressionError as error:
        raise ExpressionProblem(error.problem) from None
    except EvaluationError as error:
        raise ExpressionProblem(str(error)) from None
    if not isinstance(value, bool):
        raise ExpressionProblem(f"it must be true or false, but is {value!r}")
    return value


def target_values(states: Mapping[str, EntryState], exit_codes: Mapping[str, int | None]) -> dict[str, Any]:
    """Return the variables of `if.expression`: `targets`, by the names of the entries."""
    targets = {}
    for name, state in states.items():
        rounds = [_values(unit, exit_codes) for unit in state.units]
        whole = rounds[0] if len(rounds) == 1 else dict(_NOTHING)
        for part in rounds if len(rounds) > 1 else ():
            whole |= {count: whole[count] + part[count] for count in (*_COUNTS, "retries", "restarts")}
        if len(rounds) > 1:
            codes = [part.get("exitCode") for part in rounds]
            _set_exit_code(whole, next(filter(None, codes), None if None in codes else 0))
        phase = EntryPhase.SKIPPED.value if state.stage is Stage.SKIPPED else state.phase.value
        targets[name] = whole | {"phase": phase, "rounds": [] if state.units and state.units[0].index is None else rounds}
    return {"targets": targets}


def round_values(entry: FlowEntry, units: tuple[Unit, ...], exit_codes: Mapping[str, int | None]) -> dict[str, Any]:
    """Return the variables of `until`: `rounds`, the rounds that have ended, and `last`, the last of these rounds."""
    rounds = [
        _values(unit, exit_codes) | {"index": unit.index, "item": item_of(entry, unit.index)}
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
    return values


def _set_exit_code(values: dict[str, Any], code: int | None) -> None:
    """Set the exit code; an unknown code is left out, so that no expression can draw a conclusion from it."""
    if code is None:
        values.pop("exitCode", None)
    else:
        values["exitCode"] = code


@lru_cache(REMEMBERED)
def _compiled(source: str, in_loop: bool) -> Program:
    return compile_expression(source, _ROUNDS if in_loop else _TARGETS)
