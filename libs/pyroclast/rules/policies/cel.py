"""Small CEL expressions."""

from __future__ import annotations

from collections.abc import Iterable


def listed(names: Iterable[str]) -> str:
    """Return a list of strings."""
    quoted = (f"'{name}'" for name in names)
    return f"[{', '.join(quoted)}]"


def matches(value: str, pattern: str) -> str:
    """Return whether `value` (an expression) matches the whole `pattern`."""
    return f"{value}.matches('^{pattern}$')"


def is_whole(value: str) -> str:
    """Return whether the quantity `value` (an expression) is a whole number; `isInteger` would refuse `2000m`."""
    number = f"quantity(string({value})).asApproximateFloat()"
    return f"{number} == double(int({number}))"
