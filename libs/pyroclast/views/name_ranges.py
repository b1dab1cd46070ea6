"""Short forms of many names, like those of Slurm: `node-[0-5,7]`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

_NUMBERED = re.compile(r"(.*?)([0-9]{1,15})([^0-9]*)")


def ranges_of(names: Iterable[str]) -> str:
    """Return the names in order, with names that differ only in their last number combined: `a-[1-3],b`."""
    numbers: dict[tuple[str, str, int], list[int]] = {}
    found: list[tuple[tuple[str, str, int], str]] = []
    for name in sorted(set(names)):
        parts = _NUMBERED.fullmatch(name)
        if parts is None:
            found.append(((name, "", 0), name))
            continue
        digits = parts[2]
        is_padded = digits.startswith("0") and len(digits) > 1
        key = (parts[1], parts[3], len(digits) if is_padded else 0)
        if key not in numbers:
            found.append((key, ""))
        numbers.setdefault(key, []).append(int(digits))
    return ",".join(name or _range(*key, sorted(numbers[key])) for key, name in found)


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
