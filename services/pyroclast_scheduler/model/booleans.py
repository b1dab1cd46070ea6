"""Booleans written as text, in the spellings that annotations and the configuration file allow."""

from __future__ import annotations

from typing import Final

_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})


def parse_bool(text: str) -> bool | None:
    """Return the boolean that `text` spells, None if `text` spells no boolean."""
    return True if text in _TRUE else False if text in _FALSE else None
