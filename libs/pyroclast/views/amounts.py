"""Resource amounts in a readable form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pyroclast.resources import quantity
from pyroclast.resources.quantity import Quantity

Amounts = Mapping[str, Any]
"""Quantities by the name of their resource."""

_NOT_ASKED_FOR: Final = ("count/", "requests.", "limits.")
_BINARY: Final = ("memory", "ephemeral-storage", "hugepages-")
_UNITS: Final = ((40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki"))


def amount(value: Any) -> Quantity:  # noqa: ANN401 - a JSON value
    """Return a quantity; 0 when `value` is not a quantity."""
    try:
        return quantity.parse(str(value))
    except quantity.QuantityError:
        return quantity.ZERO


def main_resources(amounts: Amounts) -> dict[str, str]:
    """Return the resources that pods request, without the names under which quotas count the same resources again."""
    return {name: str(value) for name, value in amounts.items() if name != "pods" and not name.startswith(_NOT_ASKED_FOR)}


def added(lists: Iterable[Amounts]) -> dict[str, str]:
    """Return the sum of resource lists."""
    sums: dict[str, Quantity] = {}
    for each in lists:
        for name, value in each.items():
            sums[name] = sums.get(name, quantity.ZERO) + amount(value)
    return {name: str(value) for name, value in sums.items()}


def as_text(amounts: Amounts) -> str:
    """Return a text such as `2 nvidia.com/gpu, 8 cpu, 64Gi memory`: devices first, then cpu, memory, and other resources."""
    present = [(name, value) for name, value in amounts.items() if amount(value)]
    present.sort(key=lambda each: (_rank(each[0]), each[0]))
    return ", ".join(f"{readable(name, value)} {name}" for name, value in present)


def readable(name: str, value: Any) -> str:  # noqa: ANN401 - a JSON value
    """Return one amount; memory is in the largest unit that leaves at least 1."""
    exact = amount(value)
    if name.startswith(_BINARY):
        for bits, unit in _UNITS:
            if exact.value >= 1 << bits:
                return f"{exact.value / (1 << bits):.4g}{unit}"
    return str(exact)


def _rank(name: str) -> int:
    return 0 if "/" in name else {"cpu": 1, "memory": 2}.get(name, 3)
