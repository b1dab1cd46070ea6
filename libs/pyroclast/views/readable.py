"""Forms that people read: amounts, durations, times, hours of usage, and many names in short."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import pairwise
from typing import Any, Final

from pyroclast.resources import quantity
from pyroclast.resources.quantity import Quantity

_WORD_AND_NUMBER: Final = re.compile(r"(\D*)(\d*)", re.ASCII)


def natural_order(name: str) -> list[tuple[str, int]]:
    """Return the sort key of a name in natural order."""
    return [(word, int(number or 0)) for word, number in _WORD_AND_NUMBER.findall(name)]


_NUMBERED = re.compile(r"(.*?)([0-9]{1,15})([^0-9]*)")


def ranges_of(names: Iterable[str]) -> str:
    """Return the names in order, with names that differ only in their last number combined: `a-[1-3],b`."""
    numbers: dict[tuple[str, str, int], list[int]] = {}
    pieces: list[tuple[tuple[str, str, int], str]] = []
    for name in sorted(set(names)):
        parts = _NUMBERED.fullmatch(name)
        if parts is None:
            pieces.append(((name, "", 0), name))
            continue
        digits = parts[2]
        is_padded = digits.startswith("0") and len(digits) > 1
        key = (parts[1], parts[3], len(digits) if is_padded else 0)
        if key not in numbers:
            pieces.append((key, ""))
        numbers.setdefault(key, []).append(int(digits))
    return ",".join(name or _range(*key, sorted(numbers[key])) for key, name in pieces)


def _range(head: str, tail: str, width: int, numbers: list[int]) -> str:
    runs = [[numbers[0]]]
    for before, number in pairwise(numbers):
        if number == before + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    written = [f"{run[0]:0{width}}" if len(run) == 1 else f"{run[0]:0{width}}-{run[-1]:0{width}}" for run in runs]
    inner = ",".join(written)
    return f"{head}{inner}{tail}" if len(numbers) == 1 else f"{head}[{inner}]{tail}"


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


UNKNOWN: Final = "<unknown>"
MINUTE: Final = 60
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
YEAR: Final = 365 * DAY


def human_duration(seconds: float, *, keeps_zero_days: bool = False) -> str:
    """Return a duration in at most two units. `keeps_zero_days`: write `5y0d` like Volcano's tables of Jobs, instead of `5y`."""
    whole = int(seconds)
    if whole < 0:
        return "0s" if whole == -1 else "<invalid>"
    if whole < 2 * MINUTE:
        return f"{whole}s"
    if whole < 10 * MINUTE:
        return _two(whole, MINUTE, "m", 1, "s")
    if whole < 3 * HOUR:
        return f"{whole // MINUTE}m"
    if whole < 8 * HOUR:
        return _two(whole, HOUR, "h", MINUTE, "m")
    if whole < 2 * DAY:
        return f"{whole // HOUR}h"
    if whole < 8 * DAY:
        return _two(whole, DAY, "d", HOUR, "h")
    if whole < 2 * YEAR:
        return f"{whole // DAY}d"
    if whole < 8 * YEAR:
        days = whole % YEAR // DAY
        return f"{whole // YEAR}y{days}d" if days or keeps_zero_days else f"{whole // YEAR}y"
    return f"{whole // YEAR}y"


def age(timestamp: str | None, now: datetime, *, keeps_zero_days: bool = False) -> str:
    """Return the age of an API timestamp; `<unknown>` without a timestamp."""
    if not timestamp:
        return UNKNOWN
    return human_duration((now - datetime.fromisoformat(timestamp)).total_seconds(), keeps_zero_days=keeps_zero_days)


def _two(whole: int, unit: int, name: str, part: int, part_name: str) -> str:
    rest = whole % unit // part
    return f"{whole // unit}{name}{rest}{part_name}" if rest else f"{whole // unit}{name}"


def start_text(start: list[str] | str) -> str:
    """Return a text such as `14:20–18:40`, or the text that replaces an estimate."""
    if isinstance(start, str):
        return start
    first, last = clock_text(start[0]), clock_text(start[2])
    day, _, time = last.rpartition(" ")
    return f"{first}–{time}" if day and first.startswith(day) else f"{first}–{last}"


def clock_text(timestamp: str, today: datetime | None = None, *, seconds: bool = False) -> str:
    """Return an API timestamp as local time of day, with the date if it differs from `today`."""
    when = datetime.fromisoformat(timestamp).astimezone()
    day = (today or datetime.now().astimezone()).date()
    time = f"{when:%H:%M:%S}" if seconds else f"{when:%H:%M}"
    return time if when.date() == day else f"{when:%b %d} {time}"


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


def sums_of(lists: Iterable[Amounts]) -> dict[str, Quantity]:
    """Return the sum of resource lists."""
    sums: dict[str, Quantity] = {}
    for each in lists:
        for name, value in each.items():
            sums[name] = sums.get(name, quantity.ZERO) + (value if isinstance(value, Quantity) else amount(value))
    return sums


def added(lists: Iterable[Amounts]) -> dict[str, str]:
    """Return the sum of resource lists as text."""
    return {name: str(value) for name, value in sums_of(lists).items()}


def as_text(amounts: Amounts) -> str:
    """Return a text such as `2 nvidia.com/gpu, 8 cpu, 64Gi memory`: devices first, then cpu, memory, and other resources."""
    present = [(name, value) for name, value in amounts.items() if amount(value)]
    present.sort(key=lambda each: (0 if "/" in each[0] else {"cpu": 1, "memory": 2}.get(each[0], 3), each[0]))
    return ", ".join(f"{readable(name, value)} {name}" for name, value in present)


def readable(name: str, value: Any) -> str:  # noqa: ANN401 - a JSON value
    """Return one amount; memory is in the largest unit that leaves at least 1."""
    exact = amount(value)
    if name.startswith(_BINARY):
        for bits, unit in _UNITS:
            if exact.value >= 1 << bits:
                return f"{exact.value / (1 << bits):.4g}{unit}"
    return str(exact)
