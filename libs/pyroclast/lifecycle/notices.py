"""Events that a pure decision asks for; the caller of the decision records each on the object."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Notice:
    """An Event: its type (Normal or Warning), its reason (one word) and its message."""

    type: str
    reason: str
    message: str


def normal(reason: str, message: str) -> Notice:
    """Return a Notice of type Normal."""
    return Notice("Normal", reason, message)


def warning(reason: str, message: str) -> Notice:
    """Return a Notice of type Warning: somebody may have to act."""
    return Notice("Warning", reason, message)
