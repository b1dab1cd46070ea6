"""Sets of CPUs in the notation of the kernel, such as `0,2-4`, stored as the bits of an integer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Final

LARGEST: Final = 8191  # the highest CPU number that a Linux kernel supports
_PART = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", re.ASCII)


def parse(listed: str) -> int:
    """Return the set of CPUs in `listed`; empty for an empty text.

    Raises:
        ValueError: the text is malformed, or a CPU number is too high.
    """
    found = 0
    for part in listed.split(",") if listed.strip() else ():
        match = _PART.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"{part.strip()!r} is neither a CPU nor a range such as 2-4")
        first = int(match[1])
        last = first if match[2] is None else int(match[2])
        if last < first:
            raise ValueError(f"{part.strip()!r} ends before it begins")
        if last > LARGEST:
            raise ValueError(f"{part.strip()!r} names a CPU beyond {LARGEST}")
        found |= (1 << (last + 1)) - (1 << first)
    return found


def members(cpus: int) -> Iterator[int]:
    """Yield the CPUs of a set in ascending order."""
    while cpus:
        lowest = cpus & -cpus
        yield lowest.bit_length() - 1
        cpus ^= lowest


def text(cpus: int) -> str:
    """Return the shortest notation of a set."""
    runs = [[cpu for _, cpu in run] for _, run in groupby(enumerate(members(cpus)), key=lambda pair: pair[1] - pair[0])]
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
