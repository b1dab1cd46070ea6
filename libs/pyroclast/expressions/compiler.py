"""Reads an expression, checks the types of its parts and makes closures over the frame of an evaluation, in one pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from . import types as t
from .errors import EvaluationError, ExpressionError
from .functions import BINARY, FUNCTIONS, METHODS, Function, contains, pattern_of
from .runs import Eval, call, compute, decided, item_of, negative, optional, read, steps, truth
from .tokens import Token, number_of, text_of, tokens_of
from .values import Duration, Timestamp, TypeOf, Value, equal

__all__ = ["Compiler"]

_MAX_NESTING: Final = 30  # brackets inside each other; each takes up to ten frames of Python's thousand
_MAX_DEPTH: Final = 150  # closures inside each other
_LEVELS: Final = (("||",), ("&&",), ("<", "<=", ">", ">=", "==", "!=", "in"), ("+", "-"), ("*", "/", "%"))
_LEVEL_OF: Final = {operator: level for level, operators in enumerate(_LEVELS) for operator in operators}
_CONSTANTS: Final = {"true": (t.BOOL, True), "false": (t.BOOL, False), "null": (t.NULL, None)}
_TYPES: Final = {"bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type"}
_QUANTIFIERS: Final = {"all": "all", "exists": "exists", "exists_one": "exists_one", "existsOne": "exists_one"}
_CHECKS: Final[Mapping[str, Callable[[str], object]]] = {
    "duration": Duration.parse, "timestamp": Timestamp.parse, "matches": pattern_of,
}  # fmt: skip
_ESCAPES: Final = (("__dot__", "."), ("__dash__", "-"), ("__slash__", "/"), ("__underscores__", "__"))
_STARTS = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
_TRUTHS: Final = {"bool", "dyn"}


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
    return (
        first
        if all(each is first or (each.kind == first.kind and not each.item and not first.fields) for each in kinds)
        else t.DYN
    )


def _type_of(name: str, left: t.Type, right: t.Type) -> t.Type | None:
    """The type of what an operator gives, None where it cannot work."""
    if name in {"_==_", "_!=_"}:
        return t.BOOL if _comparable(left, right) else None
    if name == "@in":
        inner = (right.item if right.kind == "list" else right.key) or t.DYN
        return t.BOOL if right.kind in {"list", "map", "dyn"} and _comparable(left, inner) else None
    fitting = [
        result for (own, one, other), (result, _) in BINARY.items()
        if own == name and left.kind in {one, "dyn"} and right.kind in {other, "dyn"}
    ]  # fmt: skip
    return _common(fitting) if fitting else None


def _run_of(name: str, left: Eval, right: Eval) -> Eval:
    match name:
        case "_==_":
            return lambda frame: equal(frame[0], left(frame), right(frame))
        case "_!=_":
            return lambda frame: not equal(frame[0], left(frame), right(frame))
        case "@in":
            return lambda frame: contains(frame[0], left(frame), right(frame))
        case _:
            return lambda frame: compute(frame[0], name, left(frame), right(frame))


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

    def _is(self, text: str, ahead: int = 0) -> bool:
        return self._tokens[min(self._at + ahead, len(self._tokens) - 1)][:2] == ("mark", text)

    def _skip(self, text: str) -> bool:
        found = self._is(text)
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

    def _expression(self) -> Term:
        self._nesting += 1
        if self._nesting > _MAX_NESTING:
            raise self._refusal("expression is nested too deeply")
        term = self._operation(0)
        if self._is("?"):
            at = self._take().at
            then = self._operation(0)
            self._need(":")
            parts = (term, then, self._expression())
            test, first, second = (each.run for each in parts)
            if term.type.kind not in _TRUTHS or not _comparable(then.type, parts[2].type):
                raise self._unfit("_?_:_", at, *parts)
            kind = _common([then.type, parts[2].type])
            term = self._term(kind, lambda frame: first(frame) if truth(test(frame)) else second(frame), at, *parts)
        self._nesting -= 1
        return term

    def _operation(self, lowest: int) -> Term:
        """Operands joined by operators of at least the level `lowest`; a chain of `&&` or `||` is one operation."""
        left = self._unary()
        while self._now.kind in {"mark", "name"} and (level := _LEVEL_OF.get(self._now.text, -1)) >= lowest:
            operator = self._take()
            name = "@in" if operator.text == "in" else f"_{operator.text}_"
            parts = [left, self._operation(level + 1)]
            if level > 1:
                kind, run = _type_of(name, parts[0].type, parts[1].type), _run_of(name, parts[0].run, parts[1].run)
            else:
                while self._skip(operator.text):
                    parts.append(self._operation(level + 1))
                kind = None if any(each.type.kind not in _TRUTHS for each in parts) else t.BOOL
                run = _chain([each.run for each in parts], by=name == "_||_")
            if kind is None:
                raise self._unfit(name, operator.at, *parts)
            left = self._term(kind, run, operator.at, *parts)
        return left

    def _unary(self) -> Term:
        signs: list[Token] = []
        while self._is("!") or self._is("-"):
            signs.append(self._take())
        is_negative = bool(signs) and signs[-1].text == "-" and self._now.kind in {"int", "float"}
        term = self._member(is_negative=is_negative)
        for sign in reversed(signs[: len(signs) - is_negative]):
            if term.type.kind not in (_TRUTHS if sign.text == "!" else {"int", "double", t.DURATION.kind, "dyn"}):
                raise self._unfit(f"{sign.text}_", sign.at, term)
            term = self._term(t.BOOL if sign.text == "!" else term.type, _signed(sign.text, term.run), sign.at, term)
        return term

    def _member(self, *, is_negative: bool) -> Term:
        term = self._primary(is_negative=is_negative)
        while self._is(".") or self._is("["):
            if self._skip("["):
                term = self._indexed(term)
                continue
            self._take()
            is_optional = self._skip("?")
            name = self._take("quoted" if self._now.kind == "quoted" else "name")
            is_call = name.kind == "name" and not is_optional and self._skip("(")
            term = self._method(term, name) if is_call else self._selected(term, name, is_optional=is_optional)
        return term

    def _selected(self, holder: Term, name: Token, *, is_optional: bool) -> Term:
        field = plain = name.text.strip("`")
        for written, text in _ESCAPES if "__" in field and name.kind == "name" else ():
            plain = plain.replace(written, text)
        if plain == field and field.startswith("__") and field.endswith("__"):
            plain = field[2:-2]
        is_optional = is_optional or holder.type.kind == "optional_type"
        own = (holder.type.item or t.DYN) if holder.type.kind == "optional_type" else holder.type
        kind = (own.fields or {}).get(field) if own.fields is not None else own.item if own.kind == "map" else t.DYN
        if kind is None or own.kind not in {"dyn", "object", "map"}:
            text = f"undefined field '{field}'" if kind is None else f"type '{own}' does not support field selection"
            raise self._refusal(text, name.at - 1)
        run = holder.run

        def there(frame: list[Value]) -> Value:
            return optional(run(frame), lambda value: read(value, field, plain))

        def select(frame: list[Value]) -> Value:
            value = run(frame)
            return value[plain] if value.__class__ is dict and plain in value else read(value, field, plain)

        result = t.optional_of(kind) if is_optional else kind
        return self._term(result, there if is_optional else select, name.at, holder, test=lambda frame: there(frame).present)

    def _indexed(self, holder: Term) -> Term:
        is_optional = self._skip("?") or holder.type.kind == "optional_type"
        index = self._expression()
        self._need("]")
        own = (holder.type.item or t.DYN) if holder.type.kind == "optional_type" else holder.type
        kinds = {"list": {"int", "double", "dyn"}, "map": {"string", "dyn"}, "dyn": {index.type.kind} - {"optional_type"}}
        if index.type.kind not in kinds.get(own.kind, ()):
            raise self._unfit("_[_]", index.at, holder, index)
        inner, run, at = own.item or t.DYN, holder.run, index.run
        if is_optional:
            found = lambda frame: optional(run(frame), lambda value: item_of(value, at(frame)))  # noqa: E731
            return self._term(t.optional_of(inner), found, index.at, holder, index)
        return self._term(inner, lambda frame: item_of(run(frame), at(frame)), index.at, holder, index)

    def _several(self, end: str) -> list[Term]:
        terms: list[Term] = []
        while not self._skip(end):
            terms.append(self._expression())
            if not self._skip(","):
                self._need(end)
                break
        return terms

    def _primary(self, *, is_negative: bool) -> Term:
        token = self._take()
        match token.kind, token.text:
            case (("int" | "float"), _):
                return self._literal(token, lambda: number_of(token, is_negative=is_negative))
            case (("string" | "raw"), _):
                return self._literal(token, lambda: text_of(token))
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

    def _named(self, token: Token) -> Term:
        name, at = token.text, token.at
        if name in _CONSTANTS:
            kind, value = _CONSTANTS[name]
            return self._term(kind, lambda _: value, at)
        if self._skip("("):
            args = self._several(")")
            if name != "has":
                return self._call(name, FUNCTIONS, args, at)
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

    def _literal(self, token: Token, content: Callable[[], Value]) -> Term:
        try:
            value = content()
        except ValueError as error:
            raise self._refusal(str(error), token.at) from None
        kind = {int: t.INT, float: t.DOUBLE, str: t.STRING}[value.__class__]
        return self._term(kind, lambda _: value, token.at, constant=value if isinstance(value, str) else None)

    def _method(self, target: Term, name: Token) -> Term:
        if name.text in {*_QUANTIFIERS, "filter", "map"} and self._now.kind == "name" and self._is(",", ahead=1):
            return self._macro(target, name)
        return self._call(name.text, METHODS, [target, *self._several(")")], name.at)

    def _call(self, name: str, table: Mapping[str, list[Function]], args: list[Term], at: int) -> Term:
        if name not in table:
            raise self._refusal(f"undeclared reference to '{name}' (in container '')", at)
        choices, runs, kinds = table[name], [each.run for each in args], [each.type.kind for each in args]
        needs_optional = table is METHODS and "optional_type" in choices[0].kinds[0] and kinds[0] != "optional_type"
        fitting = [] if needs_optional else [each for each in choices if each.takes(kinds)]
        if not fitting:
            target = f"{args[0].type}." if table is METHODS else ""
            raise self._unfit(name, at, *args[bool(target) :], target=target)
        text = args[-1].constant if args else None
        try:
            if name in _CHECKS and text is not None:  # a literal that the function cannot take is found out at once
                _CHECKS[name](text)
        except EvaluationError:
            raise self._refusal(f"invalid {name} argument", args[-1].at) from None
        kind = args[0].type.item or t.DYN if name in {"orValue", "value"} else _common([each.result for each in fitting])
        return self._term(kind, lambda frame: call(frame[0], name, choices, [run(frame) for run in runs]), at, *args)

    def _macro(self, target: Term, name: Token) -> Term:
        holder = target.type
        if holder.kind not in {"list", "map", "dyn"}:
            text = f"expression of type '{holder}' cannot be range of a comprehension (must be list, map, or dynamic)"
            raise self._refusal(text, target.at)
        item = (holder.key if holder.kind == "map" else holder.item) or t.DYN
        outer, before, slot = self._scope, self._count, self.slots
        self._scope = {**outer, self._take("name").text: (slot, item)}
        self.slots += 1
        self._need(",")
        args = self._several(")")
        self._scope = outer
        result = args.pop() if name.text == "map" and args else None
        if len(args) > 1 or (not args and not result) or any(each.type.kind not in _TRUTHS for each in args):
            raise self._unfit(name.text, name.at, *args, target=f"{holder}.")
        rounds = _rounds(target.run, slot, 1 + self._count - before)
        run = _loop(_QUANTIFIERS.get(name.text, ""), rounds, args, result)
        kind = t.BOOL if name.text in _QUANTIFIERS else t.list_of(result.type if result else item)
        return self._term(kind, run, name.at, target, *args, *([result] if result else []))


def _chain(runs: list[Eval], *, by: bool) -> Eval:
    return lambda frame: decided(runs, frame, by=by) is by


def _signed(sign: str, run: Eval) -> Eval:
    return (lambda frame: not truth(run(frame))) if sign == "!" else (lambda frame: negative(run(frame)))


def _rounds(run: Eval, slot: int, cost: int) -> Eval:
    return lambda frame: steps(frame, run(frame), slot, cost)


def _loop(name: str, rounds: Eval, tests: list[Term], result: Term | None) -> Eval:
    """The macros: `all`, `exists` and `exists_one`, or `filter` and `map` without a name."""
    test, made = tests[0].run if tests else None, result.run if result else None
    if test is not None and name in {"all", "exists"}:
        by = name == "exists"
        return lambda frame: decided((test for _ in rounds(frame)), frame, by=by) is by
    if test is not None and name:
        return lambda frame: sum(truth(test(frame)) for _ in rounds(frame)) == 1
    return lambda frame: [made(frame) if made else each for each in rounds(frame) if test is None or truth(test(frame))]
