"""CEL, the expression language of Kubernetes, as far as conditions and rules need it: small, typed, and with a budget.

What is not supported (bytes, unsigned integers, arithmetic with times, sorting …) is refused when an expression is compiled.
"""

from __future__ import annotations

from .compiler import BUDGET, Program, compile_expression
from .tokens import ExpressionError
from .values import BudgetExceeded, EvaluationError, Type

__all__ = ["BUDGET", "BudgetExceeded", "EvaluationError", "ExpressionError", "Program", "Type", "compile_expression"]
