"""Times and amounts in the units of the tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyroclast.lifecycle.times import parse_time
from pyroclast.resources.pods import Amounts
from pyroclast.resources.quantity import QuantityError, parse

MEBIBYTE: Final = 2**20
LARGEST: Final = 2**34
"""The largest recorded amount. Without this bound, a pod with absurd requests could overflow the sum of a year."""

TEXT: Final = 512


def seconds(time: str | None) -> int | None:
    """Return a time of the API in seconds since the epoch; None when it is empty or invalid."""
    if not time:
        return None
    try:
        return int(parse_time(time))
    except (ValueError, OverflowError):
        return None


def clipped(text: str, length: int = TEXT) -> str:
    """Return at most `length` characters of a user's text, without NUL, which PostgreSQL cannot store in a text."""
    return text.replace("\0", "")[:length].encode("utf-8", "replace").decode()


def is_in_mebibytes(resource: str) -> bool:
    """Whether a resource is counted in MiB. cpu is counted in millicores, other resources in thousandths."""
    return resource in {"memory", "ephemeral-storage", "storage"} or resource.startswith("hugepages-")


def whole_amounts(amounts: Amounts) -> dict[str, int]:
    """Return amounts in whole units of the tables, rounded up, without amounts that are zero."""
    found = {}
    for name, quantity in amounts.items():
        whole = -(-quantity.value // MEBIBYTE) if is_in_mebibytes(name) else quantity.millis
        if whole > 0:
            found[clipped(name, 253)] = min(whole, LARGEST)
    return found


def read_amounts(written: Mapping[str, str | int] | None) -> dict[str, int]:
    """Return the quantities of an object in whole units of the tables. Invalid quantities are left out."""
    amounts = {}
    for name, value in (written or {}).items():
        try:
            amounts[name] = parse(str(value))
        except QuantityError:
            continue
    return whole_amounts(amounts)
