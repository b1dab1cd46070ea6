"""Match conditions of webhooks: expressions over a request. An invalid expression is rejected when it is stored.

The variables are `object`, `oldObject` and `request`. A missing object is None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NoReturn

from pyroclast.expressions import EvaluationError, ExpressionError, Program, compile_expression
from pyroclast.expressions.values import BOOL, DYN, LIST, MAP, STRING, Type, object_of
from pyroclast_standalone.apiserver.documents.errors import Json


@dataclass(frozen=True, slots=True)
class Broken:
    """An expression that does not compile."""

    source: str
    problem: str
    names: frozenset[str] = frozenset()

    def evaluate(self, _variables: Mapping[str, Json]) -> NoReturn:
        """Raise the error of the expression."""
        raise EvaluationError(f"compilation failed: {self.problem}")


def compile_stored(source: str, variables: Mapping[str, Type]) -> Program | Broken:
    """Compile `source`, which was checked when it was stored, perhaps by another version of this server."""
    try:
        return compile_expression(source, variables)
    except ExpressionError as error:
        return Broken(source, error.problem)


_KIND: Final = object_of(group=STRING, version=STRING, kind=STRING)
_RESOURCE: Final = object_of(group=STRING, version=STRING, resource=STRING)
_REQUEST: Final = object_of(
    kind=_KIND,
    resource=_RESOURCE,
    subResource=STRING,
    requestKind=_KIND,
    requestResource=_RESOURCE,
    requestSubResource=STRING,
    name=STRING,
    namespace=STRING,
    operation=STRING,
    userInfo=object_of(username=STRING, uid=STRING, groups=LIST[STRING], extra=MAP[LIST[STRING]]),
    dryRun=BOOL,
    options=DYN,
)
_VARIABLES: Final = {"object": DYN, "oldObject": DYN, "request": _REQUEST}


class ConditionError(Exception):
    """A condition could not be evaluated. The message quotes the condition."""


def fault_of_condition(source: str) -> str:
    """Return the reason why a condition is invalid. Empty when it is valid."""
    try:
        program = compile_expression(source, _VARIABLES)
    except ExpressionError as error:
        return f"compilation failed: {error}"
    return "" if program.type.kind in {BOOL.kind, DYN.kind} else f"must evaluate to {BOOL} but got {program.type}"


class Conditions:
    """The match conditions of a webhook. The webhook is only called when all conditions are true."""

    def __init__(self, conditions: Iterable[Mapping[str, Json]]) -> None:
        self._programs = [compile_stored(each["expression"], _VARIABLES) for each in conditions]

    def hold(self, variables: Mapping[str, Json]) -> bool:
        """Return whether all conditions are true. A false condition decides, even if others cannot be evaluated.

        Raises ConditionError: no condition is false, and one could not be evaluated.
        """
        failures: list[str] = []
        for program in self._programs:
            try:
                if program.evaluate(variables) is not True:
                    return False
            except EvaluationError as error:
                failures.append(f"expression '{program.source}' resulted in error: {error}")
        if failures:
            raise ConditionError(failures[0] if len(failures) == 1 else f"[{', '.join(failures)}]")
        return True
