"""Arguments of job plugins, read by the rules of Go's `flag` package, which those who write them know."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import structlog

__all__ = ["Value", "parse"]

log = structlog.get_logger()

Value: TypeAlias = bool | int | str

_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})
_INTEGER: Final = re.compile(r"[+-]?(0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+|[0-9][0-9_]*)")


class _Stop(Exception):
    """The rest is not read; the message says why, empty when that is in order."""


def parse(plugin: str, arguments: Sequence[str], defaults: Mapping[str, Value]) -> dict[str, Value]:
    """The values of the flags that `defaults` names; the type of a default is the type of its flag.

    Reading stops at the first word that is no flag, at `--` and at the first mistake. A mistake is logged; what was read before
    it holds.
    """
    values = dict(defaults)
    words = list(arguments)
    try:
        while words:
            name, value = _next(words, values)
            values[name] = value
    except _Stop as stop:
        if str(stop):
            log.warning("plugin.argument", plugin=plugin, arguments=list(arguments), reason=str(stop))
    return values


def _next(words: list[str], values: Mapping[str, Value]) -> tuple[str, Value]:
    word = words.pop(0)
    if not word.startswith("-") or word in ("-", "--"):
        raise _Stop("")
    name, given, text = word.removeprefix("-").removeprefix("-").partition("=")
    if name not in values:
        raise _Stop(f"flag provided but not defined: -{name}")
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
    raise _Stop(f'invalid boolean value "{text}" for -{name}: parse error')


def _integer(name: str, text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise _Stop(f'invalid value "{text}" for flag -{name}: parse error')
    digits = text.lstrip("+-")
    octal = len(digits) > 1 and digits[0] == "0" and digits[1] not in "xXbBoO"
    try:
        return int(text, 8) if octal else int(text, 0)
    except ValueError:
        raise _Stop(f'invalid value "{text}" for flag -{name}: parse error') from None
