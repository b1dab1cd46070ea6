"""What can go wrong: ExpressionError when an expression is compiled, EvaluationError when it is evaluated."""

from __future__ import annotations

__all__ = ["BudgetExceeded", "EvaluationError", "ExpressionError"]


class ExpressionError(ValueError):
    """A text that is no expression, or one that is not supported here. `position` is the offset of the place at fault."""

    def __init__(self, problem: str, source: str, position: int) -> None:
        self.problem = problem
        self.position = position
        line = source.count("\n", 0, position)
        start = source.rfind("\n", 0, position) + 1
        shown = source[start:].partition("\n")[0]
        column = position - start
        super().__init__(f"ERROR: <input>:{line + 1}:{column + 1}: {problem}\n | {shown}\n | {'.' * column}^")


class EvaluationError(Exception):
    """An expression that has no value for these variables: a missing key, a division by zero, a wrong type."""


class BudgetExceeded(EvaluationError):
    """An expression that takes more work than it may; no operator of the language hides it."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")
