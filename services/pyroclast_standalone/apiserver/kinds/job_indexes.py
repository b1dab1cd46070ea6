"""Sets of the indexes of a job's pods, as text: `0,2-5`."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["count_indexes"]

_TWO_PARTS: Final = "violates the requirement that an index interval can have at most two parts separated by '-'"
_NUMBER: Final = re.compile(r"[+-]?\d+")


def count_indexes(text: str, completions: int) -> tuple[int, str]:
    """How many indexes `text` names, and what is wrong with it, empty if nothing."""
    if not text:
        return 0, ""
    last: int | None = None
    total = 0
    for interval in text.split(","):
        limits = interval.split("-")
        if len(limits) > 2:
            return 0, f'the fragment "{interval}" {_TWO_PARTS}'
        first, fault = _index(limits[0], last, completions)
        if fault:
            return 0, fault
        last, total = first, total + 1
        if len(limits) == 2:
            end, fault = _index(limits[1], last, completions)
            if fault:
                return 0, fault
            total += end - first
            last = end
    return total, ""


def _index(text: str, last: int | None, completions: int) -> tuple[int, str]:
    if not _NUMBER.fullmatch(text):
        return 0, f'cannot convert string to integer for index: "{text}"'
    number = int(text)
    if number >= completions:
        return 0, f'too large index: "{text}"'
    if last is not None and last >= number:
        return 0, f"non-increasing order, previous: {last}, current: {number}"
    return number, ""
