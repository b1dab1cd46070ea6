"""CEL, the expression language of validation rules, match conditions and admission policies.

Our own, because what Kubernetes needs is not in a package: objects are built in expressions (`Object{spec: …}`), fields are
optional (`self.?x`), rules are checked against a schema before they are stored, and a rule reads an object where it lies instead
of converting the whole of it for each evaluation.
"""

from .errors import CelError, CompileError
from .program import Environment, Program, compile_expression
from .types import DYN, Type, of_schema

__all__ = ["DYN", "CelError", "CompileError", "Environment", "Program", "Type", "compile_expression", "of_schema"]
