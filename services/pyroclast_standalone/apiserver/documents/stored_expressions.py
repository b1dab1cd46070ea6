"""Expressions in stored objects. An invalid expression fails on evaluation and does not affect anything else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from pyroclast.expressions import EvaluationError, ExpressionError, Program, compile_expression
from pyroclast.expressions.values import Type
from pyroclast_standalone.apiserver.documents.values import Json


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
