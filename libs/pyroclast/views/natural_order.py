"""The natural order of names, which compares numbers by value: `node-2` before `node-10`."""

from __future__ import annotations

import re
from typing import Final

_WORD_AND_NUMBER: Final = re.compile(r"(\D*)(\d*)", re.ASCII)


def natural_order(name: str) -> list[tuple[str, int]]:
    """Return the sort key of a name in natural order."""
    return [(word, int(number or 0)) for word, number in _WORD_AND_NUMBER.findall(name)]
