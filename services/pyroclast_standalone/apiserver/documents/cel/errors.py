"""What can go wrong with an expression."""

from __future__ import annotations

__all__ = ["CelError", "CompileError", "NoSuchOverload", "located"]


class CelError(Exception):
    """An evaluation that fails: a missing key, a division by zero, arguments that no function takes."""


class NoSuchOverload(Exception):
    """Not for these types: another overload of the function is to be tried."""


class CompileError(Exception):
    """An expression that cannot be evaluated at all. The text points at the place."""


def located(source: str, at: int, text: str) -> str:
    """`text` with the line of `source` that holds offset `at`, and a mark under it."""
    line = source.count("\n", 0, at)
    start = source.rfind("\n", 0, at) + 1
    end = source.find("\n", at)
    shown = source[start : end if end >= 0 else len(source)]
    column = at - start
    return f"ERROR: <input>:{line + 1}:{column + 1}: {text}\n | {shown}\n | {'.' * column}^"
