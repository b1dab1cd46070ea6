"""Whole numbers in annotations, which users may set to any text."""

from __future__ import annotations

from typing import Final

_DIGITS: Final = 18  # enough for any real count or size, and within 64 bits


def parse_count(text: str) -> int | None:
    """Return the number that `text` spells in decimal digits; None if it spells no number or one of more than 18 digits."""
    return int(text) if text.isdecimal() and len(text) <= _DIGITS else None
