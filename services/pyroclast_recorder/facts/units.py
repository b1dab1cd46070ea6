"""Times and amounts as the tables have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyroclast.lifecycle.times import parse_time
from pyroclast.resources.pods import Amounts
from pyroclast.resources.quantity import QuantityError, parse

__all__ = ["LARGEST", "MEBIBYTE", "clipped", "is_in_mebibytes", "read_amounts", "seconds", "whole_amounts"]

MEBIBYTE: Final = 2**20
LARGEST: Final = 2**34
"""The largest amount that is recorded: a pod that asks for more, by error or for fun, must not overflow a year's sum."""

TEXT: Final = 512


def seconds(time: str | None) -> int | None:
    """Seconds since the epoch of a time of the API; None where there is none, or it is none."""
    if not time:
        return None
    try:
        return int(parse_time(time))
    except (ValueError, OverflowError):
        return None


def clipped(text: str, length: int = TEXT) -> str:
    """At most so many characters of a text that somebody else wrote; without NUL, which PostgreSQL keeps in no text."""
    return text.replace("\0", "")[:length].encode("utf-8", "replace").decode()


def is_in_mebibytes(resource: str) -> bool:
    """Whether a resource is counted in MiB; cpu is in millicores, anything else in thousandths."""
    return resource in {"memory", "ephemeral-storage", "storage"} or resource.startswith("hugepages-")


def whole_amounts(amounts: Amounts) -> dict[str, int]:
    """Resources in whole units, rounded up; what is nothing is left out."""
    found = {}
    for name, quantity in amounts.items():
        whole = -(-quantity.value // MEBIBYTE) if is_in_mebibytes(name) else quantity.millis
        if whole > 0:
            found[clipped(name, 253)] = min(whole, LARGEST)
    return found


def read_amounts(written: Mapping[str, str | int] | None) -> dict[str, int]:
    """Resources as an object names them, in whole units; what is nonsense is nothing."""
    amounts = {}
    for name, value in (written or {}).items():
        try:
            amounts[name] = parse(str(value))
        except QuantityError:
            continue
    return whole_amounts(amounts)
