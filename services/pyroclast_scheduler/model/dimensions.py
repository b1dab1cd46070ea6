"""Resource dimensions: which row of the columns holds which resource, and resource lists as whole numbers.

Separate from the tables because pods, nodes and queues must agree on the same rows and units.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from pyroclast.resources.vectors import counts, stored_amount

__all__ = [
    "CPU",
    "MEMORY",
    "MOST",
    "MOST_OF_ONE",
    "PODS",
    "UNKNOWN",
    "Amounts",
    "Dimensions",
    "Ints",
    "amounts_of",
    "counted_of",
]

Ints = npt.NDArray[np.int64]
Amounts = Mapping[str, int]  # resource name → amount in stored units

CPU: Final = 0
MEMORY: Final = 1
PODS: Final = 2
UNKNOWN: Final = 3
_FIXED: Final = ("cpu", "memory", "pods", "unknown")
MOST: Final = 256
"""Rows of the columns: a cluster has some dozens of resources, and each costs 0.2 MB beside 5,000 nodes."""
MOST_OF_ONE: Final = 64
"""Resources of one node or queue that get rows; real ones have a dozen."""
_MOST_NAMED: Final = 10  # in texts
_LARGEST: Final = 2**60  # what a quantity may be at most
_PARTS: Final = re.compile(
    r"volcano\.sh/vgpu-memory-percentage|huawei\.com/Ascend\w*-memory"
)  # of cards: nodes have none of them
_CEILING: Final = 2**58  # what it counts as at most, so that some dozen of them add up without overflow; no real node comes near


class Dimensions:
    """Rows of the columns by resource name. Rows 0, 1, 2 are cpu, memory and pods.

    Others are given to what nodes have and queues limit, so that nobody else makes the columns grow. All that has no row of its
    own counts in row UNKNOWN, of which no node has anything. Pods may hold some of it on nodes that had it
    once. No pod that asks for any of it fits there, as for any resource of which a node has less than its pods hold.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.names: tuple[str, ...] = _FIXED  # never changed in place: whoever has it sees rows that stay; "" is a free row
        self._rows = {name: row for row, name in enumerate(_FIXED) if row != UNKNOWN}
        self.add(names)

    def __len__(self) -> int:
        return len(self.names)

    def row(self, name: str) -> int:
        """The row in which resource `name` counts."""
        return self._rows.get(name, UNKNOWN)

    def find(self, name: str) -> int | None:
        """The row of resource `name`, None if it has none of its own."""
        return self._rows.get(name)

    def missing(self, names: Iterable[str]) -> list[str]:
        """Those without a row of their own, sorted."""
        return sorted(name for name in names if name not in self._rows)

    def add(self, names: Iterable[str]) -> list[int]:
        """Give rows to these resources, as long as there are any; the new rows."""
        listed, rows = list(self.names), []
        free = [row for row, name in enumerate(listed) if not name]
        for name in names:
            if not name or name in listed or (not free and len(listed) == MOST):
                continue
            if not free:
                free.append(len(listed))
                listed.append("")
            rows.append(free.pop(0))
            listed[rows[-1]] = name
        self._rename(listed)
        return rows

    def drop(self, kept: Container[str]) -> list[int]:
        """Take the rows from all resources but those `kept`; the rows that are free now."""
        listed = [name if name in kept or name in _FIXED else "" for name in self.names]
        self._rename(listed)
        return [row for row, name in enumerate(listed) if not name]

    @property
    def left(self) -> int:
        """How many resources may yet get a row."""
        return MOST - len(self.names) + self.names.count("")

    def vector(self, amounts: Amounts) -> Ints:
        """What one object asks for as a vector; what is absurd is cut off."""
        vector = np.zeros(len(self.names), dtype=np.int64)
        for name, amount in amounts.items():
            row = self.row(name)
            vector[row] = min(int(vector[row]) + amount, _CEILING)
        return vector

    def known(self, amounts: Amounts) -> Ints:
        """What one object has as a vector; what is absurd is cut off, what has no row of its own is left out."""
        vector = self.vector(amounts)
        vector[UNKNOWN] = 0
        return vector

    def asked(self, amounts: Amounts) -> npt.NDArray[np.float64]:
        """Sums of any size that are asked for as a vector."""
        vector = np.zeros(len(self.names))
        for name, amount in amounts.items():
            vector[self.row(name)] += amount
        return vector

    def sums(self, amounts: Amounts) -> npt.NDArray[np.float64]:
        """Sums of any size as a vector; what has no row of its own is left out."""
        return np.array([amounts.get(name, 0) for name in self.names], dtype=np.float64)

    def named(self, rows: Iterable[int], amounts: Amounts) -> list[tuple[str, int]]:
        """The resources of these rows, with their rows: for row UNKNOWN the first few that `amounts` asks for, if only 0 of."""
        found: list[tuple[str, int]] = []
        for row in rows:
            unknown = self.missing(amounts) if row == UNKNOWN else []
            names = [name for name in unknown if amounts[name]] or unknown or [self.names[row]]
            found += [(name, row) for name in names[:_MOST_NAMED]]
        return found

    def frozen(self) -> Dimensions:
        """A copy that later changes here do not reach."""
        copy = Dimensions()
        copy.names, copy._rows = self.names, self._rows
        return copy

    def _rename(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._rows = {name: row for row, name in enumerate(names) if name and row != UNKNOWN}


def counted_of(names: Iterable[str]) -> list[str]:
    """Of the resources that one object names those that are looked at: the first of too many, whatever their order."""
    return sorted(set(names).difference(_FIXED))[:MOST_OF_ONE]


def amounts_of(resources: Mapping[str, object]) -> dict[str, int]:
    """A Kubernetes resource list in stored units: cpu in milli-cores, memory in bytes, pods plain, scalars in thousandths.

    Names that the scheduler does not count (`storage`, `count/…`) are left out. So are those that say how much of a card is
    wanted: no node has an amount of these, and the plugin deviceshare counts what is left.

    Raises:
        ValueError: a quantity is malformed, negative or absurdly large; the text names the resource.
    """
    found = ((name, _amount(name, str(text))) for name, text in resources.items())
    return {name: amount for name, amount in found if amount is not None}


@functools.lru_cache(4096)  # the same few are asked for by pod after pod, and offered by node after node
def _amount(name: str, text: str) -> int | None:
    """One amount of a resource list; None of what is not counted."""
    if not counts(name) or _PARTS.fullmatch(name):
        return None
    amount = stored_amount(name, text)
    if not 0 <= amount <= _LARGEST:
        raise ValueError(f"{name}: {text} is out of range")
    return amount
