"""Parses lists of arguments by the rules of Go's `flag` package, which their authors know."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

Value: TypeAlias = bool | int | str

_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})
_INTEGER: Final = re.compile(r"[+-]?(0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+|[0-9][0-9_]*)")

_BEYOND: Final = 1 << 63
"""The smallest integer that is too large for a flag."""

_MOST_SHOWN: Final = 40
"""The most characters of an argument that an error message repeats: enough to recognise it, but too few to disclose a private
key.
"""


def parse_bool(text: str) -> bool | None:
    """Return the boolean that `text` spells in Go, None if it spells none."""
    return True if text in _TRUE else False if text in _FALSE else None


@dataclass(frozen=True, slots=True)
class Flags:
    """The values of flags by name. Their `repr` is hidden, because a value may be a private key.

    `values`: the given values, else the defaults. `mistake`: why parsing stopped before the end; empty without a mistake.
    `position`: the index of the argument at which parsing stopped.
    """

    values: Mapping[str, Value] = field(repr=False)
    mistake: str = ""
    position: int = 0

    def is_set(self, name: str) -> bool:
        """Return the value of a boolean flag."""
        return bool(self.values[name])

    def number(self, name: str) -> int:
        """Return the value of an integer flag."""
        return int(self.values[name])

    def text(self, name: str) -> str:
        """Return the value of a string flag."""
        return str(self.values[name])


class _Stop(Exception):
    """Parsing stops; the message is the mistake, empty when there is none."""


def parse(arguments: Sequence[str], defaults: Mapping[str, Value]) -> Flags:
    """Parse the flags that `defaults` names; the type of a default is the type of its flag.

    Parsing stops at the first word that is not a flag, at `--`, and at the first mistake. The values before that are used.
    """
    values = dict(defaults)
    words = list(arguments)
    position = 0
    try:
        while words:
            position = len(arguments) - len(words)
            name, value = _next(words, values)
            values[name] = value
    except _Stop as stop:
        return Flags(values, str(stop), position)
    return Flags(values)


def _next(words: list[str], values: Mapping[str, Value]) -> tuple[str, Value]:
    word = words.pop(0)
    if not word.startswith("-") or word in ("-", "--"):
        raise _Stop("")
    name, given, text = word.removeprefix("-").removeprefix("-").partition("=")
    if name not in values:
        raise _Stop(f"flag provided but not defined: -{_shown(name)}")
    if isinstance(values[name], bool):
        return name, _boolean(name, text) if given else True
    if not given:
        if not words:
            raise _Stop(f"flag needs an argument: -{name}")
        text = words.pop(0)
    return name, _integer(name, text) if isinstance(values[name], int) else text


def _boolean(name: str, text: str) -> bool:
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise _Stop(f'invalid boolean value "{_shown(text)}" for -{name}: parse error')


def _integer(name: str, text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise _Stop(f'invalid value "{_shown(text)}" for flag -{name}: parse error')
    digits = text.lstrip("+-")
    octal = len(digits) > 1 and digits[0] == "0" and digits[1] not in "xXbBoO"
    try:
        number = int(text, 8) if octal else int(text, 0)
    except ValueError:
        raise _Stop(f'invalid value "{_shown(text)}" for flag -{name}: parse error') from None
    if not -_BEYOND <= number < _BEYOND:
        raise _Stop(f'invalid value "{_shown(text)}" for flag -{name}: value out of range')
    return number


def _shown(text: str) -> str:
    first = text.split(maxsplit=1)[0] if text.split() else ""
    return first if first == text and len(text) <= _MOST_SHOWN else f"{first[:_MOST_SHOWN]}…"
