"""Conversion of usage from the recorder's units to hours of cores, GiB or devices."""

from __future__ import annotations

from typing import Final

SECONDS: Final = 3600
MEBIBYTES: Final = 1024
THOUSANDTHS: Final = 1000
IN_MEBIBYTES: Final = ("memory", "ephemeral-storage", "storage", "hugepages-")


def in_hours(resource: str, amount: int) -> float:
    """Return hours of one core, one GiB or one device."""
    unit = MEBIBYTES if is_in_mebibytes(resource) else THOUSANDTHS
    return amount / unit / SECONDS


def is_in_mebibytes(resource: str) -> bool:
    """Whether the recorder counts a resource in MiB; it counts cpu in millicores, and other resources in thousandths."""
    return resource.startswith(IN_MEBIBYTES)


def hours_text(hours: float) -> str:
    """Return hours with as many digits as are significant."""
    if hours == 0:
        return "0"
    if hours < 0.01:
        return "<0.01"
    return f"{hours:.2f}" if hours < 100 else f"{hours:.0f}"
