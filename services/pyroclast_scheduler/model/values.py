"""Values in texts: whole numbers of annotations, which users may set to any text, and amounts in messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyroclast.resources import quantity

_OF_BYTES: Final = ("ephemeral-storage", "hugepages-", "requests.", "limits.")  # stored in thousandths, unlike memory
_MILLIS: Final = 1000
_DIGITS: Final = 18  # enough for any real count or size, and within 64 bits


def parse_count(text: str) -> int | None:
    """Return the number that `text` spells in decimal digits; None if it spells no number or one of more than 18 digits."""
    return int(text) if text.isdecimal() and len(text) <= _DIGITS else None


def number(name: str, amount: float) -> str:
    """Return `amount` of resource `name`, given in stored units, as a Kubernetes quantity."""
    whole = int(amount)
    if name == "pods":
        return str(whole)
    if name == "memory":
        return str(quantity.from_value(whole, quantity.Format.BINARY_SI))
    if name.startswith(_OF_BYTES) and whole % _MILLIS == 0:
        return str(quantity.from_value(whole // _MILLIS, quantity.Format.BINARY_SI))
    return str(quantity.from_millis(whole))


def spelled(name: str, amount: float) -> str:
    """Return the quantity followed by the name of the resource, such as `2 cpu` or `16Gi memory`."""
    return f"{number(name, amount)} {name}"


def listed(amounts: Iterable[tuple[str, float]]) -> str:
    """Return amounts of several resources as one text, such as `2 cpu, 16Gi memory`."""
    return ", ".join(spelled(name, amount) for name, amount in amounts)
