"""Small pieces of CEL."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["is_whole", "listed", "matches"]


def listed(names: Iterable[str]) -> str:
    """A list of strings."""
    quoted = (f"'{name}'" for name in names)
    return f"[{', '.join(quoted)}]"


def matches(value: str, pattern: str) -> str:
    """Whether `value` (an expression) matches `pattern` as a whole."""
    return f"{value}.matches('^{pattern}$')"


def is_whole(value: str) -> str:
    """Whether the quantity that `value` gives is a whole number; `isInteger` would refuse `2000m`."""
    number = f"quantity(string({value})).asApproximateFloat()"
    return f"{number} == double(int({number}))"
