"""Whole numbers written as text in annotations, where anybody may write anything."""

from __future__ import annotations

from typing import Final

__all__ = ["parse_count"]

_DIGITS: Final = 18  # more than any count or size in use, and no more than 64 bits hold


def parse_count(text: str) -> int | None:
    """The number that `text` spells in decimal digits alone; None if it is none, or absurdly large."""
    return int(text) if text.isdecimal() and len(text) <= _DIGITS else None
