"""Expressions, compiled: what the rest of the server uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyroclast_standalone.apiserver.documents.values import Json

from . import syntax
from .check import check
from .errors import CelError, CompileError
from .evaluate import Eval, compile_node, lazily
from .macros import bound_names
from .types import Type

__all__ = ["Environment", "Program", "compile_expression", "lazily"]

_MAX_LENGTH = 16 * 1024 * 1024  # characters; a definition is smaller than this as a whole


@dataclass(frozen=True, slots=True)
class Environment:
    """The variables that an expression may use, with their types."""

    variables: Mapping[str, Type] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled expression.

    Attributes:
        source: As it was written.
        type: Of its result.
        names: The variables that it reads.
    """

    source: str
    type: Type
    names: frozenset[str]
    _evaluate: Eval

    def evaluate(self, variables: Mapping[str, Json]) -> Json:
        """The value for these variables.

        Raises:
            CelError: it has none: a missing key, a division by zero, arguments that no function takes.
        """
        try:
            return self._evaluate(dict(variables))
        except RecursionError:
            raise CelError("expression is nested too deeply") from None


def _names(node: syntax.Node, bound: frozenset[str]) -> frozenset[str]:
    match node:
        case syntax.Ident(name=name):
            return frozenset() if name in bound else frozenset((name,))
        case syntax.Select(operand=operand):
            return _names(operand, bound)
        case syntax.Index(operand=operand, index=index):
            return _names(operand, bound) | _names(index, bound)
        case syntax.Call():
            inner = bound | set(bound_names(node))
            found = _names(node.target, bound) if node.target is not None else frozenset[str]()
            for arg in node.args:
                found |= _names(arg, inner)
            return found
        case syntax.ListOf(items=items):
            return frozenset().union(*(_names(item, bound) for item, _ in items))
        case syntax.MapOf(entries=entries):
            return frozenset().union(*(_names(key, bound) | _names(value, bound) for key, value, _ in entries))
        case syntax.Struct(fields=fields):
            return frozenset().union(*(_names(value, bound) for _, value, _ in fields))
        case _:
            return frozenset()


def compile_expression(source: str, environment: Environment) -> Program:
    """Reads, checks and compiles `source`.

    Raises:
        CompileError: bad syntax, an unknown name or field, an operator that cannot work; the text points at each place.
    """
    if len(source) > _MAX_LENGTH:
        raise CompileError("expression is too long")
    try:
        node = syntax.parse(source)
        kind, types, problems = check(source, node, environment.variables)
        if problems:
            raise CompileError("\n".join(problems))
        return Program(source, kind, _names(node, frozenset()), compile_node(node, types))
    except CelError as error:
        raise CompileError(str(error)) from None
    except RecursionError:
        raise CompileError("expression is nested too deeply") from None
