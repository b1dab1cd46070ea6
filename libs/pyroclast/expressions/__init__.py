"""CEL, the expression language of Kubernetes, as far as conditions and rules need it: small, typed, and with a budget.

What is not supported (bytes, unsigned integers, addresses, sorting …) is refused when an expression is compiled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from .compiler import Compiler
from .errors import BudgetExceeded, EvaluationError, ExpressionError
from .runs import Eval
from .types import Type
from .values import Meter, Optional

__all__ = [
    "BUDGET", "BudgetExceeded", "EvaluationError", "ExpressionError", "Optional", "Program", "Type", "compile_expression",
]  # fmt: skip

BUDGET: Final = 500_000
"""What an evaluation may cost unless the caller says: about this many operations, 0.2 s."""


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled expression: its text, the type of its result, and the variables it reads."""

    source: str
    type: Type
    names: frozenset[str]
    _run: Eval
    _slots: Mapping[str, int]
    _length: int

    def evaluate(self, variables: Mapping[str, Any], budget: int = BUDGET) -> Any:  # noqa: ANN401  # a value of any type
        """The value for these variables, of JSON or as the types of `values`.

        Raises:
            EvaluationError: It has none; BudgetExceeded where that would take more than `budget` operations.
        """
        frame: list[Any] = [None] * self._length
        frame[0] = Meter(budget)
        for name, slot in self._slots.items():
            if name not in variables:
                raise EvaluationError(f"no such attribute(s): {name}")
            frame[slot] = variables[name]
        return self._run(frame)


def compile_expression(source: str, variables: Mapping[str, Type]) -> Program:
    """Reads and checks `source`, which may use `variables`.

    Raises:
        ExpressionError: It is no expression, knows a name or field that is not declared, or uses what is not supported.
    """
    compiler = Compiler(source, variables)
    term = compiler.whole()
    slots = {name: slot for slot, name in enumerate(variables, 1) if name in compiler.names}
    return Program(source, term.type, frozenset(slots), term.run, slots, compiler.slots)
