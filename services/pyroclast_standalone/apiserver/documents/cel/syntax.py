"""The tree of an expression, and reading it from text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, TypeAlias

from pyroclast_standalone.apiserver.documents.values import Json

from .errors import CompileError, located
from .values import Uint

__all__ = ["Call", "Ident", "Index", "ListOf", "Literal", "MapOf", "Node", "Select", "Struct", "parse"]


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant."""

    value: Json
    at: int


@dataclass(frozen=True, slots=True)
class Ident:
    """A name."""

    name: str
    at: int


@dataclass(frozen=True, slots=True)
class Select:
    """`operand.field`, or `operand.?field` when optional."""

    operand: Node
    field: str
    at: int
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Index:
    """`operand[index]`, or `operand[?index]` when optional."""

    operand: Node
    index: Node
    at: int
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """`function(args)` or `target.function(args)`; operators are calls of `_+_` and the like."""

    function: str
    target: Node | None
    args: tuple[Node, ...]
    at: int


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list; each item with whether it is optional."""

    items: tuple[tuple[Node, bool], ...]
    at: int


@dataclass(frozen=True, slots=True)
class MapOf:
    """A map; each entry with whether it is optional."""

    entries: tuple[tuple[Node, Node, bool], ...]
    at: int


@dataclass(frozen=True, slots=True)
class Struct:
    """`Name{field: value}`; each field with whether it is optional."""

    name: str
    fields: tuple[tuple[str, Node, bool], ...]
    at: int


Node: TypeAlias = Literal | Ident | Select | Index | Call | ListOf | MapOf | Struct

_TOKEN: Final = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*)
    | (?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)
    | (?P<int>0x[0-9a-fA-F]+[uU]?|\d+[uU]?)
    | (?P<string>[rRbB]{0,2}(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
    | (?P<quoted>`[^`]+`)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<mark>\?\.|&&|\|\||<=|>=|==|!=|[-+*/%<>!?:.,()\[\]{}])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(
    r"\\(?:([abfnrtv\\?\"'`])|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL
)
_PLAIN: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_BINARY: Final = (
    ("||",),
    ("&&",),
    ("<", "<=", ">", ">=", "==", "!=", "in"),
    ("+", "-"),
    ("*", "/", "%"),
)
_CONSTANTS: Final = {"true": True, "false": False, "null": None}
_STARTS: Final = "'.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER"
_MAX_DEPTH: Final = 200  # nesting that the reader follows


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int


def _tokens(source: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    while at < len(source):
        found = _TOKEN.match(source, at)
        if found is None:
            text = f"Syntax error: token recognition error at: '{source[at]}'"
            raise CompileError(located(source, at, text))
        if found.lastgroup != "space":
            tokens.append(_Token(str(found.lastgroup), found.group(), at))
        at = found.end()
    tokens.append(_Token("end", "<EOF>", len(source)))
    return tokens


def _unescape(text: str, *, is_bytes: bool) -> str:
    def replace(found: re.Match[str]) -> str:
        plain, two, four, eight, octal, other = found.groups()
        if plain is not None:
            return _PLAIN.get(plain, plain)
        if octal is not None:
            return chr(int(octal, 8))
        number = two or four or eight
        if number is None:
            raise ValueError(f"invalid escape sequence: \\{other}")
        return chr(int(number, 16))

    del is_bytes
    return _ESCAPE.sub(replace, text)


def _text(token: str) -> str | bytes:
    prefix = re.match(r"[rRbB]*", token)
    marks = prefix.group().lower() if prefix else ""
    body = token[len(marks) :]
    size = 3 if body[:3] in {'"""', "'''"} else 1
    content = body[size:-size]
    if "r" not in marks:
        content = _unescape(content, is_bytes="b" in marks)
    return content.encode() if "b" in marks else content


class _Parser:
    def __init__(self, source: str) -> None:
        self._source = source
        self._tokens = _tokens(source)
        self._at = 0
        self._depth = 0

    @property
    def _now(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _skip(self, text: str) -> bool:
        if self._now.kind in {"mark", "name"} and self._now.text == text:
            self._at += 1
            return True
        return False

    def _need(self, text: str) -> _Token:
        if self._now.kind == "mark" and self._now.text == text:
            return self._take()
        raise self._refusal(f"mismatched input '{self._now.text}' expecting '{text}'")

    def _refusal(self, text: str) -> CompileError:
        return CompileError(located(self._source, self._now.at, f"Syntax error: {text}"))

    def _expected(self) -> str:
        """What may begin an expression; after an opening parenthesis of a call also its end."""
        before = self._tokens[self._at - 1].text if self._at else ""
        is_call = before == "(" and self._at > 1 and self._tokens[self._at - 2].kind == "name"
        closing = "')', " if is_call else ""
        return "{'[', '{', '(', " + closing + _STARTS + "}"

    def whole(self) -> Node:
        node = self._expression()
        if self._now.kind != "end":
            raise self._refusal(f"extraneous input '{self._now.text}' expecting <EOF>")
        return node

    def _expression(self) -> Node:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self._refusal("expression is nested too deeply")
        condition = self._binary(0)
        if self._now.text == "?" and self._now.kind == "mark":
            at = self._take().at
            then = self._binary(0)
            self._need(":")
            condition = Call("_?_:_", None, (condition, then, self._expression()), at)
        self._depth -= 1
        return condition

    def _binary(self, level: int) -> Node:
        if level == len(_BINARY):
            return self._unary()
        left = self._binary(level + 1)
        while self._now.text in _BINARY[level] and self._now.kind in {"mark", "name"}:
            operator = self._take()
            name = "@in" if operator.text == "in" else f"_{operator.text}_"
            left = Call(name, None, (left, self._binary(level + 1)), operator.at)
        return left

    def _unary(self) -> Node:
        token = self._now
        if token.kind == "mark" and token.text == "!":
            self._take()
            return Call("!_", None, (self._unary(),), token.at)
        if token.kind == "mark" and token.text == "-":
            self._take()
            if self._now.kind in {"int", "float"}:
                number = self._member()
                if isinstance(number, Literal) and not isinstance(number.value, Uint):
                    return Literal(-number.value, token.at)
                return Call("-_", None, (number,), token.at)
            return Call("-_", None, (self._unary(),), token.at)
        return self._member()

    def _member(self) -> Node:
        node = self._primary()
        while True:
            token = self._now
            if token.kind != "mark":
                return node
            if token.text in {".", "?."}:
                node = self._selected(node)
            elif token.text == "[":
                self._take()
                optional = self._skip("?")
                index = self._expression()
                self._need("]")
                node = Index(node, index, token.at, optional)
            elif token.text == "{" and (name := _dotted(node)):
                node = self._struct(name, token.at)
            else:
                return node

    def _selected(self, node: Node) -> Node:
        dot = self._take()
        optional = dot.text == "?." or self._skip("?")
        name = self._take()
        if name.kind not in {"name", "quoted"}:
            self._at -= 1
            raise self._refusal(f"no viable alternative at input '.{name.text}'")
        if self._now.kind == "mark" and self._now.text == "(" and not optional and name.kind == "name":
            at = self._take().at
            return Call(name.text, node, self._arguments(), at)
        return Select(node, name.text.strip("`"), dot.at, optional)

    def _arguments(self) -> tuple[Node, ...]:
        args: list[Node] = []
        while not self._skip(")"):
            args.append(self._expression())
            if not self._skip(","):
                self._need(")")
                break
        return tuple(args)

    def _struct(self, name: str, at: int) -> Struct:
        self._take()
        fields: list[tuple[str, Node, bool]] = []
        while not self._skip("}"):
            optional = self._skip("?")
            field = self._take()
            if field.kind not in {"name", "quoted"}:
                self._at -= 1
                raise self._refusal(f"mismatched input '{field.text}' expecting IDENTIFIER")
            self._need(":")
            fields.append((field.text.strip("`"), self._expression(), optional))
            if not self._skip(","):
                self._need("}")
                break
        return Struct(name, tuple(fields), at)

    def _primary(self) -> Node:
        token = self._take()
        match token.kind, token.text:
            case "int", text:
                return self._integer(text, token.at)
            case "float", text:
                return Literal(float(text), token.at)
            case "string", text:
                return self._string(text, token.at)
            case "name", text if text in _CONSTANTS:
                return Literal(_CONSTANTS[text], token.at)
            case "name", text:
                if self._now.kind == "mark" and self._now.text == "(":
                    at = self._take().at
                    return Call(text, None, self._arguments(), at)
                return Ident(text, token.at)
            case "mark", ".":
                name = self._take()
                if name.kind != "name":
                    self._at -= 1
                    raise self._refusal(f"no viable alternative at input '.{name.text}'")
                return Ident(name.text, name.at)
            case "mark", "(":
                node = self._expression()
                self._need(")")
                return node
            case "mark", "[":
                return self._list(token.at)
            case "mark", "{":
                return self._map(token.at)
            case _:
                self._at -= 1
                raise self._refusal(f"mismatched input '{token.text}' expecting {self._expected()}")

    def _integer(self, text: str, at: int) -> Literal:
        value = int(text.rstrip("uU"), 0) if text.startswith("0x") else int(text.rstrip("uU"))
        if text[-1] in "uU":
            if value >= 1 << 64:
                raise CompileError(located(self._source, at, "invalid uint literal"))
            return Literal(Uint(value), at)
        is_negative = self._at > 1 and self._tokens[self._at - 2].text == "-"
        if value > (1 << 63) - (not is_negative):
            raise CompileError(located(self._source, at, "invalid int literal"))
        return Literal(value, at)

    def _string(self, text: str, at: int) -> Literal:
        try:
            return Literal(_text(text), at)
        except ValueError as error:
            raise CompileError(located(self._source, at, f"Syntax error: {error}")) from None

    def _list(self, at: int) -> ListOf:
        items: list[tuple[Node, bool]] = []
        while not self._skip("]"):
            optional = self._skip("?")
            items.append((self._expression(), optional))
            if not self._skip(","):
                self._need("]")
                break
        return ListOf(tuple(items), at)

    def _map(self, at: int) -> MapOf:
        entries: list[tuple[Node, Node, bool]] = []
        while not self._skip("}"):
            optional = self._skip("?")
            key = self._expression()
            self._need(":")
            entries.append((key, self._expression(), optional))
            if not self._skip(","):
                self._need("}")
                break
        return MapOf(tuple(entries), at)


def _dotted(node: Node) -> str:
    """`Object.spec` of the names that make it; empty for anything else."""
    match node:
        case Ident(name=name):
            return name
        case Select(operand=operand, field=field, optional=False):
            outer = _dotted(operand)
            return f"{outer}.{field}" if outer else ""
        case _:
            return ""


def parse(source: str) -> Node:
    """The tree of `source`.

    Raises:
        CompileError: no expression; the text points at the place.
    """
    return _Parser(source).whole()
