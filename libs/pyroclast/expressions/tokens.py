"""The words of an expression."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from .errors import ExpressionError

__all__ = ["Token", "tokens_of"]

_MAX_LENGTH: Final = 20_000  # characters; the longest rules in use have about 2,000
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
    """A word: name, quoted, mark, end, or literal, which stands for `value`. `at` is its offset."""

    kind: str
    text: str
    at: int
    value: int | float | str = ""


def tokens_of(source: str) -> list[Token]:
    """All words of `source` and the end.

    Raises:
        ExpressionError: It is too long, or holds what is no word, or bytes or unsigned integers.
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
            raise ExpressionError("bytes and unsigned integers are not supported here", source, at)
        try:
            if kind in _VALUES:
                tokens.append(Token("literal", text, at, _VALUES[kind](text)))
            elif kind != "space":
                tokens.append(Token(kind, text, at))
        except ValueError as error:
            raise ExpressionError(str(error), source, at) from None
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


def _inside(text: str) -> str:
    quotes = 3 if text[:3] in {'"""', "'''"} else 1
    return text[quotes:-quotes]


_VALUES: Final[Mapping[str, Callable[[str], int | float | str]]] = {
    "float": float,
    "int": lambda text: int(text[:30], 16 if text.startswith("0x") else 10),  # longer ones are too large in any case
    "raw": lambda text: _inside(text[1:]),
    "string": lambda text: _ESCAPE.sub(_plain, _inside(text)),
}
