"""The tokens of an expression, and the error of an expression that cannot be parsed."""

from __future__ import annotations

import re
from typing import Final, NamedTuple, TypeAlias

Literal: TypeAlias = bool | int | float | str | None
_MAX_LENGTH: Final = 20_000  # characters; the longest rules in use have about 2,000
_TOKEN: Final = re.compile(
    r"""
    (?P<space>[ \t\n\r\f]+|//[^\n]*)
    | (?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)
    | (?P<int>0x[0-9a-fA-F]+|\d+)(?![uU])
    | (?P<raw>[rR](?:\"{3}.*?\"{3}|'{3}.*?'{3}|"[^"\n\r]*"|'[^'\n\r]*'))
    | (?P<string>\"{3}(?:\\.|[^\\])*?\"{3}|'{3}(?:\\.|[^\\])*?'{3}|"(?:\\.|[^"\\\n\r])*"|'(?:\\.|[^'\\\n\r])*')
    | (?P<quoted>`[A-Za-z0-9_.\-/ ]+`)
    | (?P<unsupported>(?:0x[0-9a-fA-F]+|\d+)[uU]|(?:[bB][rR]?|[rR][bB])["']|[{}])
    | (?P<word>(?:true|false|null)\b)
    | (?P<mark>&&|\|\||<=|>=|==|!=|[-+*/%<>!?:.,()\[\]]|in\b)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_ESCAPE: Final = re.compile(
    r"\\(?:([abfnrtv\\?\"'`])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|.)", re.DOTALL
)
_PLAIN: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class ExpressionError(ValueError):
    """The text is not an expression, or is not supported. `position`: the offset of the faulty place."""

    def __init__(self, problem: str, source: str, position: int) -> None:
        self.problem = problem
        self.position = position
        lines = source[:position].split("\n")
        shown, column = source.split("\n")[len(lines) - 1], len(lines[-1])
        super().__init__(f"ERROR: <input>:{len(lines)}:{column + 1}: {problem}\n | {shown}\n | {'.' * column}^")


class Token(NamedTuple):
    """A token: name, quoted, mark, or literal, which has `value`. `at`: its offset."""

    kind: str
    text: str
    at: int
    value: Literal = None


def tokens_of(source: str) -> list[Token]:
    """Return all tokens of `source`, with the end as a mark.

    Raises ExpressionError: `source` is too long, or contains an invalid or unsupported token.
    """
    if len(source) > _MAX_LENGTH:
        raise ExpressionError(f"an expression has at most {_MAX_LENGTH} characters", "", 0)
    tokens: list[Token] = []
    at = 0
    while at < len(source):
        found = _TOKEN.match(source, at)
        if found is None:
            raise ExpressionError(f"Syntax error: token recognition error at: '{source[at]}'", source, at)
        kind, text = str(found.lastgroup), found.group()
        if kind == "unsupported":
            raise ExpressionError("bytes, unsigned integers, and maps built in expressions are not supported here", source, at)
        if kind in {"mark", "name", "quoted"}:
            tokens.append(Token(kind, text, at))
        elif kind != "space":
            try:
                tokens.append(Token("literal", text, at, _value(kind, text)))
            except ValueError as error:
                raise ExpressionError(str(error), source, at) from None
        at = found.end()
    return [*tokens, Token("mark", "<EOF>", len(source))]


def _value(kind: str, text: str) -> Literal:
    match kind:
        case "float":
            return float(text)
        case "int":
            return int(text[:30], 16 if text.startswith("0x") else 10)  # longer literals are too large in any case
        case "word":
            return {"true": True, "false": False}.get(text)
    inside = text.removeprefix("r").removeprefix("R")
    quotes = 3 if inside[:3] in {'"""', "'''"} else 1
    return inside[quotes:-quotes] if kind == "raw" else _ESCAPE.sub(_plain, inside[quotes:-quotes])


def _plain(found: re.Match[str]) -> str:
    plain, two, four, eight, octal = found.groups()
    if plain is not None:
        return _PLAIN.get(plain, plain)
    code = int(octal, 8) if octal else int(two or four or eight or "-1", 16)
    if not 0 <= code <= 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise ValueError(f"Syntax error: invalid escape sequence: {found[0]}")
    return chr(code)
