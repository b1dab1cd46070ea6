"""CEL, the expression language of Kubernetes, with the parts that conditions and rules need: small, typed, and with a budget.

Unsupported parts (bytes, unsigned integers, arithmetic with times, sorting …) are refused when an expression is compiled.
"""

from __future__ import annotations

from .compiler import BUDGET, Program, compile_expression, members_read
from .tokens import ExpressionError
from .values import BudgetExceeded, EvaluationError, Type

__all__ = [
    "BUDGET",
    "BudgetExceeded",
    "EvaluationError",
    "ExpressionError",
    "Program",
    "Type",
    "compile_expression",
    "members_read",
]
