"""Amounts as people write them."""

from __future__ import annotations

from collections.abc import Iterable

from pyroclast.resources import quantity

__all__ = ["listed", "number", "spelled"]


def number(name: str, amount: float) -> str:
    """An amount of resource `name` in stored units as a quantity."""
    whole = int(amount)
    if name == "pods":
        return str(whole)
    if name == "memory":
        return str(quantity.from_value(whole, quantity.Format.BINARY_SI))
    return str(quantity.from_millis(whole))


def spelled(name: str, amount: float) -> str:
    """As `number`, with the resource: `2 cpu`, `16Gi memory`."""
    return f"{number(name, amount)} {name}"


def listed(amounts: Iterable[tuple[str, float]]) -> str:
    """Amounts by resource: `2 cpu, 16Gi memory`."""
    return ", ".join(spelled(name, amount) for name, amount in amounts)
