"""What is wrong with a text that should be JSON, in the words of Go's scanner."""

from __future__ import annotations

import re
from typing import Final

from pyroclast.resources.go_text import go_quote

__all__ = ["syntax_error"]

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_LITERALS: Final = {"t": "true", "f": "false", "n": "null"}
_VALUE: Final = "looking for beginning of value"
_KEY: Final = "looking for beginning of object key string"


class _Unfinished(Exception):
    """The text ends too soon."""


class _Unexpected(Exception):
    """A character that cannot stand where it does: its place, and the words for it."""

    def __init__(self, at: int, words: str) -> None:
        super().__init__(words)
        self.at = at
        self.words = words


def syntax_error(body: bytes) -> str:
    """The first error of `body`; empty when the scanner sees none."""
    text = body.decode("latin-1")  # the scanner goes by bytes
    try:
        _scan(text)
    except _Unfinished:
        return "unexpected end of JSON input"
    except _Unexpected as error:
        return f"invalid character {_quoted(_at(text, error.at))} {error.words}"
    return ""


def _quoted(character: str) -> str:
    if character == "'":
        return r"'\''"
    return "'\"'" if character == '"' else f"'{go_quote(character)[1:-1]}'"


def _at(text: str, at: int) -> str:
    """A character within a token; the end looks like a space."""
    return text[at] if at < len(text) else " "


def _scan(text: str) -> None:
    """Walks over the tokens. What may follow is `wanted`: a value, the first `item` of a list or `key` of an object, another
    `next` key, a `colon`, or what comes `after` a value.
    """
    opened: list[str] = []
    wanted, at = "value", 0
    while True:
        space = _SPACE.match(text, at)
        at = space.end() if space else at
        if at == len(text):
            if wanted == "after" and not opened:
                return
            raise _Unfinished
        character = text[at]
        match wanted, character:
            case ("value" | "item", "{" | "["):
                opened.append(character)
                wanted, at = "key" if character == "{" else "item", at + 1
            case ("item", "]") | ("key", "}"):
                opened.pop()
                wanted, at = "after", at + 1
            case ("value" | "item", _):
                wanted, at = "after", _scalar(text, at)
            case ("key" | "next", '"'):
                wanted, at = "colon", _string(text, at)
            case ("key" | "next", _):
                raise _Unexpected(at, _KEY)
            case ("colon", ":"):
                wanted, at = "value", at + 1
            case ("colon", _):
                raise _Unexpected(at, "after object key")
            case _:
                wanted, at = _after(opened, character, at), at + 1


def _after(opened: list[str], character: str, at: int) -> str:
    """What is wanted after the `character` that follows a value."""
    if not opened:
        raise _Unexpected(at, "after top-level value")
    is_object = opened[-1] == "{"
    if character == ",":
        return "next" if is_object else "value"
    if character == ("}" if is_object else "]"):
        opened.pop()
        return "after"
    raise _Unexpected(at, "after object key:value pair" if is_object else "after array element")


def _scalar(text: str, at: int) -> int:
    character = text[at]
    if character == '"':
        return _string(text, at)
    if character == "-" or character.isdecimal():
        return _number(text, at)
    if character not in _LITERALS:
        raise _Unexpected(at, _VALUE)
    literal = _LITERALS[character]
    for index, wanted in enumerate(literal):
        if _at(text, at + index) != wanted:
            raise _Unexpected(at + index, f"in literal {literal} (expecting {_quoted(wanted)})")
    return at + len(literal)


def _string(text: str, at: int) -> int:
    at += 1
    while (character := text[at : at + 1]) != '"':
        if not character:
            raise _Unfinished
        if character < " ":
            raise _Unexpected(at, "in string literal")
        at += 1
        if character == "\\":
            escape = _at(text, at)
            if escape not in 'bfnrt\\/"u':
                raise _Unexpected(at, "in string escape code")
            at += 1
            for _ in range(4 if escape == "u" else 0):
                if _at(text, at) not in "0123456789abcdefABCDEF":
                    raise _Unexpected(at, r"in \u hexadecimal character escape")
                at += 1
    return at + 1


def _number(text: str, at: int) -> int:
    if text[at] == "-":
        at += 1
    at = at + 1 if _at(text, at) == "0" else _digits(text, at, "in numeric literal")
    if text[at : at + 1] == ".":
        at = _digits(text, at + 1, "after decimal point in numeric literal")
    if text[at : at + 1] in {"e", "E"}:
        at += 2 if _at(text, at + 1) in {"+", "-"} else 1
        at = _digits(text, at, "in exponent of numeric literal")
    return at


def _digits(text: str, at: int, words: str) -> int:
    if _at(text, at) not in "0123456789":
        raise _Unexpected(at, words)
    while text[at : at + 1] in tuple("0123456789"):
        at += 1
    return at
