"""What users are told of an object, as an Event on it: the result of a decision, recorded by whoever carries it out."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Notice", "normal", "warning"]


@dataclass(frozen=True, slots=True)
class Notice:
    """An Event: its type (Normal or Warning), its reason in one word, its message."""

    type: str
    reason: str
    message: str


def normal(reason: str, message: str) -> Notice:
    """What goes as it should."""
    return Notice("Normal", reason, message)


def warning(reason: str, message: str) -> Notice:
    """What somebody may have to look after."""
    return Notice("Warning", reason, message)
