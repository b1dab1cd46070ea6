"""The words of an expression."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from .errors import ExpressionError

__all__ = ["Token", "number_of", "text_of", "tokens_of"]

MAX_LENGTH: Final = 20_000  # characters; the longest rules in use have about 2,000
_TOKEN: Final = re.compile(
    r"""
    (?P<space>[ \t\n\r\f]+|//[^\n]*)
    | (?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)
    | (?P<int>0x[0-9a-fA-F]+|\d+)(?![uU])
    | (?P<raw>[rR](?:\"{3}.*?\"{3}|'{3}.*?'{3}|"[^"\n\r]*"|'[^'\n\r]*'))
    | (?P<string>\"{3}(?:\\.|[^\\])*?\"{3}|'{3}(?:\\.|[^\\])*?'{3}|"(?:\\.|[^"\\\n\r])*"|'(?:\\.|[^'\\\n\r])*')
    | (?P<quoted>`[A-Za-z0-9_.\-/ ]+`)
    | (?P<unsupported>(?:0x[0-9a-fA-F]+|\d+)[uU]|(?:[bB][rR]?|[rR][bB])["'])
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<mark>&&|\|\||<=|>=|==|!=|[-+*/%<>!?:.,()\[\]{}])
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_ESCAPE: Final = re.compile(
    r"\\(?:([abfnrtv\\?\"'`])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|.)", re.DOTALL
)
_PLAIN: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class Token(NamedTuple):
    """A word: float, int, raw, string, quoted, name, mark or end; `at` is its offset."""

    kind: str
    text: str
    at: int


def tokens_of(source: str) -> list[Token]:
    """All words of `source` and the end.

    Raises:
        ExpressionError: It is too long, or holds what is no word, or bytes or unsigned integers.
    """
    if len(source) > MAX_LENGTH:
        raise ExpressionError(f"an expression has at most {MAX_LENGTH} characters", "", 0)
    tokens: list[Token] = []
    at = 0
    while at < len(source):
        found = _TOKEN.match(source, at)
        if found is None:
            raise ExpressionError(f"Syntax error: token recognition error at: '{source[at]}'", source, at)
        if found.lastgroup == "unsupported":
            raise ExpressionError("bytes and unsigned integers are not supported here", source, at)
        if found.lastgroup != "space":
            tokens.append(Token(str(found.lastgroup), found.group(), at))
        at = found.end()
    return [*tokens, Token("end", "<EOF>", len(source))]


def _plain(found: re.Match[str]) -> str:
    plain, two, four, eight, octal = found.groups()
    if plain is not None:
        return _PLAIN.get(plain, plain)
    code = int(octal, 8) if octal else int(two or four or eight or "-1", 16)
    if not 0 <= code <= 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise ValueError(f"Syntax error: invalid escape sequence: {found[0]}")
    return chr(code)


def text_of(token: Token) -> str:
    """What a string stands for.

    Raises:
        ValueError: An escape sequence means nothing.
    """
    body = token.text[1:] if token.kind == "raw" else token.text
    quotes = 3 if body[:3] in {'"""', "'''"} else 1
    return body[quotes:-quotes] if token.kind == "raw" else _ESCAPE.sub(_plain, body[quotes:-quotes])


def number_of(token: Token, *, is_negative: bool) -> int | float:
    """What a number stands for, or its negative.

    Raises:
        ValueError: It is an integer of more than 64 bits.
    """
    sign = -1 if is_negative else 1
    if token.kind == "float":
        return sign * float(token.text)
    value = sign * int(token.text[:30], 16 if token.text.startswith("0x") else 10)
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError("invalid int literal")
    return value
