"""Parses an expression, checks the types of its parts, and builds closures over the frame of an evaluation, in one pass."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pyroclast.expressions import values as t

from .functions import LOOPS, TABLE, Eval, call, decided, steps
from .tokens import ExpressionError, Literal, Token, tokens_of
from .values import KINDS, METER, EvaluationError, Frame, Value, contains, equal, item_of, optional, truth

BUDGET: Final = 500_000
"""The default budget of an evaluation: about so many operations, 0.2 s."""
_MAX_NESTING: Final = 120  # nested parts; each needs up to four frames of Python's thousand
_MAX_DEPTH: Final = 150  # nested closures
_LEVELS: Final = (("?",), ("||",), ("&&",), ("<", "<=", ">", ">=", "==", "!=", "in"), ("+", "-"), ("*", "/", "%"), (), (".", "["))
_LEVEL_OF: Final = {mark: level for level, marks in enumerate(_LEVELS) for mark in marks}
_UNARY: Final = 6
_LITERALS: Final = {str: t.STRING, int: t.INT, float: t.DOUBLE, bool: t.BOOL, type(None): t.NULL}
_TYPES: Final = {kind: own for own, kind in KINDS.items()}
# functions that are called at compile time for a literal, so that an invalid literal is reported at once
_TRIED: Final = {"duration", "timestamp", ".matches"}
_ESCAPED: Final = re.compile(r"__(\w+?)__")  # escapes in names of fields: `foo__dash__bar`, `__in__`
_MEANT: Final = {"dot": ".", "dash": "-", "slash": "/", "underscores": "__"}
_STARTS: Final = "'.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
_TRUTHS: Final = {"bool", "dyn"}
_INDEXES: Final = {"list": {"int", "double", "dyn"}, "map": {"string", "dyn"}}


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled expression: its text, the type of its result, and the names of the variables that it uses."""

    source: str
    type: t.Type
    names: frozenset[str]
    _run: Eval

    def evaluate(self, variables: Mapping[str, Any], budget: int = BUDGET) -> Any:  # noqa: ANN401  # a value of any type
        """Return the value of the expression for these variables, which are JSON values or have the types of `values`.

        Raises:
            EvaluationError: The expression has no value; BudgetExceeded when the evaluation needs more than `budget` operations.
        """
        if missing := self.names - variables.keys():
            raise EvaluationError(f"no such attribute(s): {', '.join(sorted(missing))}")
        return self._run({**variables, METER: budget})


class Term(NamedTuple):
    """A part of an expression. `constant`: the value of a literal. `found`: returns the selected field as an optional value, if
    the part selects a field.
    """

    type: t.Type
    run: Eval
    at: int
    depth: int
    constant: Literal = None
    found: Eval | None = None


def _comparable(left: t.Type, right: t.Type) -> bool:
    """Whether values of two types may be compared for equality."""
    kinds = {left.kind, right.kind}
    if kinds & {"dyn", "optional_type"} or kinds <= {"object", "map"} or kinds == {"object", "null_type"}:
        return True
    return left.kind == right.kind and (left.kind != "list" or _comparable(left.item or t.DYN, right.item or t.DYN))


def _common(kinds: list[t.Type]) -> t.Type:
    """Return the common type of `kinds`, or `dyn` when they differ."""
    first, *others = kinds or [t.DYN]
    same = all(each is first or (each.kind == first.kind and not (each.item or each.fields)) for each in others)
    return first if same else t.DYN


def _may_be(own: type, kind: str) -> bool:
    """Whether an argument of that kind may have the class `own` at run time. A `dyn` argument is never an optional value."""
    return kind == KINDS[own] or (kind == "dyn" and own is not tuple)


def _unescaped(name: Token) -> str:
    """Return the name of the field that a token names."""
    field = name.text.strip("`")
    return _ESCAPED.sub(lambda found: _MEANT.get(found[1], found[1]), field) if name.kind == "name" else field


def members_read(source: str, variable: str) -> Iterator[str | None]:
    """Yield the members of `variable` that `source` names, as in `variable.x` and `variable["x"]`; None for any other use.

    Raises ExpressionError: `source` has an invalid token.
    """
    tokens = tokens_of(source)
    for at, token in enumerate(tokens[:-1]):
        if token.kind != "name" or token.text != variable or (at and tokens[at - 1].text == "."):
            continue
        mark, *rest = (each for each in tokens[at + 1 : at + 6] if each.text != "?")
        is_literal = mark.text == "[" and len(rest) > 1 and rest[0].kind == "literal" and rest[1].text == "]"
        if is_literal and isinstance(rest[0].value, str):
            yield rest[0].value
        elif mark.text == "." and rest[0].kind in {"name", "quoted"} and (len(rest) == 1 or rest[1].text != "("):
            yield _unescaped(rest[0])
        else:
            yield None


class _Compiler:
    """The state of a compilation. `names`: the variables and loop slots that the expression reads from its frame."""

    def __init__(self, source: str, variables: Mapping[str, t.Type]) -> None:
        self._source = source
        self._tokens = tokens_of(source)
        self._at = self._nesting = self._count = 0
        self._scope: dict[str, tuple[str | int, t.Type]] = {name: (name, kind) for name, kind in variables.items()}
        self.names: set[str | int] = set()

    @property
    def _now(self) -> Token:
        return self._tokens[self._at]

    def _skip(self, text: str) -> bool:
        found = self._now.text == text
        self._at += found
        return found

    def take(self, wanted: str = "") -> Token:
        """Take the next token, which must have the text or kind `wanted`, if that is set."""
        token = self._now
        if wanted and wanted not in token[:2]:
            raise self._refusal(f"Syntax error: mismatched input '{token.text}' expecting '{wanted}'", token.at)
        self._at += token.text != "<EOF>"
        return token

    def _refusal(self, text: str, at: int) -> ExpressionError:
        return ExpressionError(text, self._source, at)

    def _unfit(self, name: str, at: int, *args: Term) -> ExpressionError:
        given = [str(each.type) for each in args]
        target = f"{given.pop(0)}." if name.startswith(".") else ""
        text = f"found no matching overload for '{name.removeprefix('.')}' applied to '{target}({', '.join(given)})'"
        return self._refusal(text, at)

    def _term(self, kind: t.Type, run: Eval, at: int, *parts: Term, constant: Literal = None, found: Eval | None = None) -> Term:
        self._count += 1
        depth = 1 + max((part.depth for part in parts), default=0)
        if depth > _MAX_DEPTH:
            raise self._refusal("expression is nested too deeply", at)
        return Term(kind, run, at, depth, constant, found)

    def expression(self, lowest: int = 0) -> Term:
        """Compile an operand and the operators behind it, down to the level `lowest`."""
        self._nesting += 1
        if self._nesting > _MAX_NESTING:
            raise self._refusal("expression is nested too deeply", self._now.at)
        term = self._operand()
        while (level := _LEVEL_OF.get(self._now.text, -1)) >= lowest:
            mark = self.take()
            match mark.text:
                case ".":
                    term = self._member(term)
                case "[":
                    term = self._indexed(term)
                case "?":
                    term = self._choice(term, mark.at)
                case "&&" | "||":
                    term = self._chain(term, mark, level)
                case _:
                    term = self._binary(term, mark, self.expression(level + 1))
        self._nesting -= 1
        return term

    def _choice(self, test: Term, at: int) -> Term:
        then = self.expression(1)
        self.take(":")
        other = self.expression()
        condition, first, second = test.run, then.run, other.run
        if test.type.kind not in _TRUTHS or not _comparable(then.type, other.type):
            raise self._unfit("_?_:_", at, test, then, other)
        kind = _common([then.type, other.type])
        return self._term(kind, lambda frame: (first if truth(condition(frame)) else second)(frame), at, test, then, other)

    def _chain(self, left: Term, mark: Token, level: int) -> Term:
        """Compile operands joined by `&&` or by `||` into one operation, however many they are."""
        parts = [left, self.expression(level + 1)]
        while self._skip(mark.text):
            parts.append(self.expression(level + 1))
        if any(each.type.kind not in _TRUTHS for each in parts):
            raise self._unfit(f"_{mark.text}_", mark.at, *parts)
        runs, by = [each.run for each in parts], mark.text == "||"
        return self._term(t.BOOL, lambda frame: decided(runs, frame, by=by) is by, mark.at, *parts)

    def _binary(self, left: Term, mark: Token, right: Term) -> Term:
        name, is_in = f"_{mark.text}_", mark.text == "in"
        if name in TABLE:
            return self._call(name, [left, right], mark.at)
        held = {"list": right.type.item, "map": t.STRING, "dyn": t.DYN}.get(right.type.kind) if is_in else right.type
        if held is None or not _comparable(left.type, held):
            raise self._unfit("@in" if is_in else name, mark.at, left, right)
        one, other, wanted = left.run, right.run, mark.text != "!="
        does: Callable[[Frame, Value, Value], bool] = contains if is_in else equal
        return self._term(t.BOOL, lambda frame: does(frame, one(frame), other(frame)) is wanted, mark.at, left, right)

    def _member(self, holder: Term) -> Term:
        is_optional = self._skip("?")
        name = self.take("quoted" if self._now.kind == "quoted" else "name")
        if not is_optional and self._skip("("):
            if name.text in LOOPS and self._now.kind == "name" and self._tokens[self._at + 1].text == ",":
                return self._loop(holder, name)
            return self._call(f".{name.text}", [holder, *self._several(")")], name.at)
        field = name.text.strip("`")
        plain = _unescaped(name)
        own = holder.type.item or t.DYN if holder.type.kind == "optional_type" else holder.type
        run = holder.run
        kind = {"dyn": t.DYN, "map": own.item}.get(own.kind) or (own.fields or {}).get(field)
        if kind is None:
            raise self._refusal(f"undefined field '{field}'", name.at - 1)
        found: Eval = lambda frame: optional(run(frame), plain, field)  # noqa: E731
        if is_optional or own is not holder.type:
            return self._term(t.OPTIONAL[kind], found, name.at, holder, found=found)
        return self._term(kind, lambda frame: item_of(run(frame), plain, field), name.at, holder, found=found)

    def _indexed(self, holder: Term) -> Term:
        is_optional = self._skip("?")
        index = self.expression()
        self.take("]")
        own = holder.type.item or t.DYN if holder.type.kind == "optional_type" else holder.type
        run, at = holder.run, index.run
        if index.type.kind not in _INDEXES.get(own.kind, {index.type.kind} - {"optional_type"} if own.kind == "dyn" else ()):
            raise self._unfit("_[_]", index.at, holder, index)
        item = own.item or t.DYN
        does, kind = (optional, t.OPTIONAL[item]) if is_optional or own is not holder.type else (item_of, item)
        return self._term(kind, lambda frame: does(run(frame), at(frame)), index.at, holder, index)

    def _several(self, end: str) -> list[Term]:
        terms: list[Term] = []
        while not self._skip(end):
            terms.append(self.expression())
            if self._now.text != end:
                self.take(",")
        return terms

    def _operand(self) -> Term:
        token = self.take()
        match token.kind, token.text:
            case "literal", _:
                return self._literal(token.value, token.at)
            case "name", _:
                return self._named(token.text, token.at)
            case "mark", "-" if (number := self._now.value).__class__ in {int, float}:
                return self._literal(-number, self.take().at)
            case "mark", "-" | "!":
                return self._call(f"{token.text}_", [self.expression(_UNARY)], token.at)
            case "mark", "(":
                term = self.expression()
                self.take(")")
                return term
            case "mark", "[":
                items = self._several("]")
                runs = [each.run for each in items]
                kind = t.LIST[_common([each.type for each in items])]
                return self._term(kind, lambda frame: [run(frame) for run in runs], token.at, *items)
        starts = "{'[', '{', '(', ')', " if re.search(r"\w\($", self._source[: token.at]) else "{'[', '{', '(', "
        raise self._refusal(f"Syntax error: mismatched input '{token.text}' expecting {starts}{_STARTS}", token.at)

    def _literal(self, value: Literal, at: int) -> Term:
        if value.__class__ is int and not -(2**63) <= value < 2**63:
            raise self._refusal("invalid int literal", at)
        return self._term(_LITERALS[value.__class__], lambda _: value, at, constant=value)

    def _named(self, name: str, at: int) -> Term:
        if self._skip("("):
            args = self._several(")")
            if name != "has":
                return self._call(name, args, at)
            if len(args) != 1 or (found := args[0].found) is None:
                raise self._refusal("invalid argument to has() macro", at)
            return self._term(t.BOOL, lambda frame: bool(found(frame)), at, args[0])
        if name in self._scope:
            slot, kind = self._scope[name]
            self.names.add(slot)
            return self._term(kind, lambda frame: frame[slot], at)
        if name in _TYPES:
            return self._term(t.TYPE, lambda _: _TYPES[name], at)
        raise self._refusal(f"undeclared reference to '{name}' (in container '')", at)

    def _call(self, name: str, args: list[Term], at: int) -> Term:
        """Compile a function, an operator, or a method, whose target is the first of `args`."""
        shown = name.removeprefix(".")
        if name not in TABLE:
            raise self._refusal(f"undeclared reference to '{shown}' (in container '')", at)
        choices, runs, given = TABLE[name], [each.run for each in args], [each.type.kind for each in args]
        fitting = [each for own, each in choices.items() if len(own) == len(given) and all(map(_may_be, own, given))]
        if not fitting:
            raise self._unfit(name, at, *args)
        if name in _TRIED and (text := args[-1].constant) is not None:
            try:
                call({METER: len(self._source)}, name, choices, [*("" for _ in args[1:]), text])
            except EvaluationError:
                raise self._refusal(f"invalid {shown} argument", args[-1].at) from None
        kind = _common([each.result or args[0].type.item or t.DYN for each in fitting])
        return self._term(kind, lambda frame: call(frame, name, choices, [run(frame) for run in runs]), at, *args)

    def _loop(self, target: Term, name: Token) -> Term:
        """Compile a macro, which puts one item after the other into the frame, in the slot of its name."""
        item = {"list": target.type.item, "map": t.STRING, "dyn": t.DYN}.get(target.type.kind)
        outer, before, slot, run = self._scope, self._count, self._now.at, target.run
        self._scope = {**outer, self.take("name").text: (slot, item or t.DYN)}
        self.take(",")
        parts = self._several(")")
        self._scope = outer
        result = parts[-1] if name.text == "map" and parts else None
        tests = parts[:-1] if result else parts
        if not item or not 1 <= len(parts) <= (2 if result else 1) or any(each.type.kind not in _TRUTHS for each in tests):
            raise self._unfit(f".{name.text}", name.at, target, *parts)
        kind = t.LIST[result.type if result else item] if name.text in {"map", "filter"} else t.BOOL
        cost, does = 1 + self._count - before, LOOPS[name.text](*(each.run for each in reversed(parts)))
        return self._term(kind, lambda frame: does(frame, steps(frame, run(frame), slot, cost)), name.at, target, *parts)


def compile_expression(source: str, variables: Mapping[str, t.Type]) -> Program:
    """Parse and check `source`, which may use `variables`.

    Raises ExpressionError: `source` is not an expression, uses an undeclared name or field, or an unsupported part of CEL.
    """
    compiler = _Compiler(source, variables)
    term = compiler.expression()
    compiler.take("<EOF>")
    return Program(source, term.type, frozenset(variables.keys() & compiler.names), term.run)
