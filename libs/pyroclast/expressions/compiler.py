"""Reads an expression, checks the types of its parts and makes closures over the frame of an evaluation, in one pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from . import types as t
from .errors import EvaluationError, ExpressionError
from .functions import TABLE
from .runs import Eval, call, contains, decided, item_of, optional, steps, truth
from .tokens import Token, tokens_of
from .values import KINDS, Meter, Optional, TypeOf, equal

__all__ = ["Compiler"]

_MAX_NESTING: Final = 120  # parts inside each other; each takes up to four frames of Python's thousand
_MAX_DEPTH: Final = 150  # closures inside each other
_LEVELS: Final = (("?",), ("||",), ("&&",), ("<", "<=", ">", ">=", "==", "!=", "in"), ("+", "-"), ("*", "/", "%"), (), (".", "["))
_LEVEL_OF: Final = {mark: level for level, marks in enumerate(_LEVELS) for mark in marks}
_UNARY: Final = 6
_CONSTANTS: Final = {"true": (t.BOOL, True), "false": (t.BOOL, False), "null": (t.NULL, None)}
_TYPES: Final = {"bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type"}
_MACROS: Final = {"all", "exists", "exists_one", "existsOne", "filter", "map"}
_TRIED: Final = {"duration", "timestamp", ".matches"}  # when compiled, with a literal: what they cannot take is found out at once
_ESCAPES: Final = (("__dot__", "."), ("__dash__", "-"), ("__slash__", "/"), ("__underscores__", "__"))
_STARTS = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
_TRUTHS: Final = {"bool", "dyn"}
_INDEXES: Final = {"list": {"int", "double", "dyn"}, "map": {"string", "dyn"}}


class Term(NamedTuple):
    """A part of an expression. `constant` is its text where it is a literal one; `test` tells whether a selected field exists."""

    type: t.Type
    run: Eval
    at: int
    depth: int
    constant: str | None = None
    test: Eval | None = None


def _comparable(left: t.Type, right: t.Type) -> bool:
    """Whether two values may be compared for equality."""
    kinds = {left.kind, right.kind}
    if kinds & {"dyn", "optional_type"} or kinds <= {"object", "map"}:
        return True
    if "null_type" in kinds:
        return not kinds & {"bool", "int", "double", "string", "bytes", "list", "map"}
    return left.kind == right.kind and (left.kind != "list" or _comparable(left.item or t.DYN, right.item or t.DYN))


def _common(kinds: list[t.Type]) -> t.Type:
    """The type of all of them, where that is one."""
    first = kinds[0] if kinds else t.DYN
    same = all(each is first or (each.kind == first.kind and not each.item and not first.fields) for each in kinds)
    return first if same else t.DYN


def _data_name(field: str) -> str:
    """What the data calls a field whose name is escaped: `foo__dash__bar`, `__in__`."""
    plain = field
    for written, text in _ESCAPES if "__" in field else ():
        plain = plain.replace(written, text)
    return field[2:-2] if plain == field and field.startswith("__") and field.endswith("__") else plain


class Compiler:
    """An expression on its way. `names` are the variables it reads, `slots` is the length of its frames."""

    def __init__(self, source: str, variables: Mapping[str, t.Type]) -> None:
        self._source = source
        self._tokens = tokens_of(source)
        self._at = self._nesting = self._count = 0
        self._scope = {name: (slot, kind) for slot, (name, kind) in enumerate(variables.items(), 1)}
        self.names: set[str] = set()
        self.slots = 1 + len(variables)

    @property
    def _now(self) -> Token:
        return self._tokens[self._at]

    def _take(self, kind: str = "") -> Token:
        token = self._now
        if kind and token.kind != kind:
            raise self._refusal(f"Syntax error: no viable alternative at input '{token.text}'")
        self._at += token.kind != "end"
        return token

    def _skip(self, text: str) -> bool:
        found = self._now[:2] == ("mark", text)
        self._at += found
        return found

    def _need(self, text: str) -> None:
        if not self._skip(text):
            raise self._refusal(f"Syntax error: mismatched input '{self._now.text}' expecting '{text}'")

    def _refusal(self, text: str, at: int | None = None) -> ExpressionError:
        return ExpressionError(text, self._source, self._now.at if at is None else at)

    def _unfit(self, name: str, at: int, *args: Term, target: str = "") -> ExpressionError:
        given = f"{target}({', '.join(str(each.type) for each in args)})"
        return self._refusal(f"found no matching overload for '{name}' applied to '{given}'", at)

    def _term(
        self, kind: t.Type, run: Eval, at: int, *parts: Term, constant: str | None = None, test: Eval | None = None
    ) -> Term:
        self._count += 1
        depth = 1 + max((part.depth for part in parts), default=0)
        if depth > _MAX_DEPTH:
            raise self._refusal("expression is nested too deeply", at)
        return Term(kind, run, at, depth, constant, test)

    def whole(self) -> Term:
        """The expression, to the end of the text."""
        term = self._expression()
        if self._now.kind != "end":
            raise self._refusal(f"Syntax error: extraneous input '{self._now.text}' expecting <EOF>")
        return term

    def _expression(self, lowest: int = 0) -> Term:
        """An operand, and what operators of at least the level `lowest` make of it."""
        self._nesting += 1
        if self._nesting > _MAX_NESTING:
            raise self._refusal("expression is nested too deeply")
        term = self._operand()
        while self._now.kind in {"mark", "name"} and (level := _LEVEL_OF.get(self._now.text, -1)) >= lowest:
            mark = self._take()
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
                    term = self._binary(term, mark, self._expression(level + 1))
        self._nesting -= 1
        return term

    def _choice(self, test: Term, at: int) -> Term:
        then = self._expression(1)
        self._need(":")
        parts = (test, then, self._expression())
        condition, first, second = (each.run for each in parts)
        if test.type.kind not in _TRUTHS or not _comparable(then.type, parts[2].type):
            raise self._unfit("_?_:_", at, *parts)
        kind = _common([then.type, parts[2].type])
        return self._term(kind, lambda frame: first(frame) if truth(condition(frame)) else second(frame), at, *parts)

    def _chain(self, left: Term, mark: Token, level: int) -> Term:
        """Operands joined by `&&` or by `||`: one operation, however many they are."""
        parts = [left, self._expression(level + 1)]
        while self._skip(mark.text):
            parts.append(self._expression(level + 1))
        if any(each.type.kind not in _TRUTHS for each in parts):
            raise self._unfit(f"_{mark.text}_", mark.at, *parts)
        runs, by = [each.run for each in parts], mark.text == "||"
        return self._term(t.BOOL, lambda frame: decided(runs, frame, by=by) is by, mark.at, *parts)

    def _binary(self, left: Term, mark: Token, right: Term) -> Term:
        name = "@in" if mark.text == "in" else f"_{mark.text}_"
        if name in TABLE:
            return self._call(name, [left, right], mark.at)
        one, other, wanted = left.run, right.run, name != "_!=_"
        held = right.type
        if name == "@in":
            held = (held.item if held.kind == "list" else held.key) or t.DYN
        if not _comparable(left.type, held) or (name == "@in" and right.type.kind not in {*_INDEXES, "dyn"}):
            raise self._unfit(name, mark.at, left, right)
        does: Callable[..., bool] = contains if name == "@in" else equal
        return self._term(t.BOOL, lambda frame: does(frame[0], one(frame), other(frame)) is wanted, mark.at, left, right)

    def _member(self, holder: Term) -> Term:
        is_optional = self._skip("?")
        name = self._take("quoted" if self._now.kind == "quoted" else "name")
        if name.kind == "name" and not is_optional and self._skip("("):
            if name.text in _MACROS and self._now.kind == "name" and self._tokens[self._at + 1][:2] == ("mark", ","):
                return self._macro(holder, name)
            return self._call(f".{name.text}", [holder, *self._several(")")], name.at)
        field = name.text.strip("`")
        plain = _data_name(field) if name.kind == "name" else field
        own = (holder.type.item or t.DYN) if holder.type.kind == "optional_type" else holder.type
        kind = (own.fields or {}).get(field) if own.fields is not None else own.item if own.kind == "map" else t.DYN
        if kind is None or own.kind not in {"dyn", "object", "map"}:
            text = f"undefined field '{field}'" if kind is None else f"type '{own}' does not support field selection"
            raise self._refusal(text, name.at - 1)
        run = holder.run
        there: Eval = lambda frame: optional(run(frame), plain, field)  # noqa: E731
        is_there: Eval = lambda frame: there(frame).present  # noqa: E731
        if is_optional or own is not holder.type:
            return self._term(t.optional_of(kind), there, name.at, holder, test=is_there)
        return self._term(kind, lambda frame: item_of(run(frame), plain, field), name.at, holder, test=is_there)

    def _indexed(self, holder: Term) -> Term:
        is_optional = self._skip("?")
        index = self._expression()
        self._need("]")
        own = (holder.type.item or t.DYN) if holder.type.kind == "optional_type" else holder.type
        if index.type.kind not in _INDEXES.get(own.kind, {index.type.kind} - {"optional_type"} if own.kind == "dyn" else ()):
            raise self._unfit("_[_]", index.at, holder, index)
        kind, run, at = own.item or t.DYN, holder.run, index.run
        if is_optional or own is not holder.type:
            return self._term(t.optional_of(kind), lambda frame: optional(run(frame), at(frame)), index.at, holder, index)
        return self._term(kind, lambda frame: item_of(run(frame), at(frame)), index.at, holder, index)

    def _several(self, end: str) -> list[Term]:
        terms: list[Term] = []
        while not self._skip(end):
            terms.append(self._expression())
            if not self._skip(","):
                self._need(end)
                break
        return terms

    def _operand(self) -> Term:
        token = self._take()
        match token.kind, token.text:
            case "mark", "-" if isinstance(self._now.value, int | float):
                return self._literal(self._take(), sign=-1)
            case "mark", "-" | "!":
                return self._call(f"{token.text}_", [self._expression(_UNARY)], token.at)
            case "literal", _:
                return self._literal(token)
            case "name", text if text != "in":
                return self._named(token)
            case "mark", "(":
                term = self._expression()
                self._need(")")
                return term
            case "mark", "[":
                items = self._several("]")
                made = [each.run for each in items]
                kind = t.list_of(_common([each.type for each in items]))
                return self._term(kind, lambda frame: [run(frame) for run in made], token.at, *items)
            case "mark", "{":
                raise self._refusal("maps and objects built in expressions are not supported here", token.at)
        is_call = [each.kind if each.kind == "name" else each.text for each in self._tokens[: self._at][-2:]] == ["name", "("]
        starts = _STARTS.replace("'.'", "')', '.'") if is_call else _STARTS
        raise self._refusal(f"Syntax error: mismatched input '{token.text}' expecting {starts}", token.at)

    def _literal(self, token: Token, sign: int = 1) -> Term:
        value = token.value
        if isinstance(value, str):
            return self._term(t.STRING, lambda _: value, token.at, constant=value)
        number = sign * value
        if isinstance(number, int) and not -(2**63) <= number < 2**63:
            raise self._refusal("invalid int literal", token.at)
        return self._term(t.INT if isinstance(number, int) else t.DOUBLE, lambda _: number, token.at)

    def _named(self, token: Token) -> Term:
        name, at = token.text, token.at
        if name in _CONSTANTS:
            kind, value = _CONSTANTS[name]
            return self._term(kind, lambda _: value, at)
        if self._skip("("):
            args = self._several(")")
            if name != "has":
                return self._call(name, args, at)
            if len(args) != 1 or (test := args[0].test) is None:
                raise self._refusal("invalid argument to has() macro", at)
            return self._term(t.BOOL, test, at, args[0])
        if name in self._scope:
            slot, kind = self._scope[name]
            self.names.add(name)
            return self._term(kind, lambda frame: frame[slot], at)
        if name in _TYPES:
            return self._term(t.TYPE, lambda _: TypeOf(name), at)
        raise self._refusal(f"undeclared reference to '{name}' (in container '')", at)

    def _call(self, name: str, args: list[Term], at: int) -> Term:
        """A function, an operator, or a method, whose target is the first of `args`."""
        shown = name.removeprefix(".")
        if name not in TABLE:
            raise self._refusal(f"undeclared reference to '{shown}' (in container '')", at)
        choices, runs, given = TABLE[name], [each.run for each in args], [each.type.kind for each in args]
        fitting = [
            overload for classes, overload in choices.items()
            if len(classes) == len(given) and all(kind in {KINDS[own], "dyn"} for own, kind in zip(classes, given, strict=True))
            and (classes[0] is not Optional or given[0] == "optional_type")
        ]  # fmt: skip
        if not fitting:
            target = f"{args[0].type}." if name != shown else ""
            raise self._unfit(shown, at, *args[bool(target) :], target=target)
        if name in _TRIED and (text := args[-1].constant) is not None:
            try:
                call(Meter(len(self._source)), name, choices, [*("" for _ in args[1:]), text])
            except EvaluationError:
                raise self._refusal(f"invalid {shown} argument", args[-1].at) from None
        kind = _common([each.result or args[0].type.item or t.DYN for each in fitting])
        return self._term(kind, lambda frame: call(frame[0], name, choices, [run(frame) for run in runs]), at, *args)

    def _macro(self, target: Term, name: Token) -> Term:
        holder = target.type
        if holder.kind not in {*_INDEXES, "dyn"}:
            text = f"expression of type '{holder}' cannot be range of a comprehension (must be list, map, or dynamic)"
            raise self._refusal(text, target.at)
        item = (holder.key if holder.kind == "map" else holder.item) or t.DYN
        outer, before, slot = self._scope, self._count, self.slots
        self._scope = {**outer, self._take("name").text: (slot, item)}
        self.slots += 1
        self._need(",")
        tests = self._several(")")
        self._scope = outer
        result = tests.pop() if name.text == "map" and tests else None
        if len(tests) > 1 or (not tests and not result) or any(each.type.kind not in _TRUTHS for each in tests):
            raise self._unfit(name.text, name.at, *tests, target=f"{holder}.")
        cost, run = 1 + self._count - before, target.run
        looped = _loop(name.text, lambda frame: steps(frame, run(frame), slot, cost), tests, result)
        kind = t.list_of(result.type if result else item) if name.text in {"map", "filter"} else t.BOOL
        return self._term(kind, looped, name.at, target, *tests, *([result] if result else []))


def _loop(name: str, rounds: Eval, tests: list[Term], result: Term | None) -> Eval:
    test, made = tests[0].run if tests else None, result.run if result else None
    if test is None or name in {"map", "filter"}:
        return lambda frame: [made(frame) if made else each for each in rounds(frame) if test is None or truth(test(frame))]
    if name in {"all", "exists"}:
        by = name == "exists"
        return lambda frame: decided((test for _ in rounds(frame)), frame, by=by) is by
    return lambda frame: sum(truth(test(frame)) for _ in rounds(frame)) == 1
