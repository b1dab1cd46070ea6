"""Resource dimensions: the row that each resource has in the arrays of amounts, and resource lists as whole numbers.

The dimensions are a module of their own because pods, nodes and queues must use the same rows and units.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from pyroclast.resources.vectors import counts, stored_amount

Ints = npt.NDArray[np.int64]
Amounts = Mapping[str, int]  # resource name → amount in stored units

CPU: Final = 0
MEMORY: Final = 1
PODS: Final = 2
UNKNOWN: Final = 3
_FIXED: Final = ("cpu", "memory", "pods", "unknown")
MOST: Final = 256
"""The largest number of rows: a cluster has some dozens of resources, and each row costs 0.2 MB with 5,000 nodes."""
MOST_OF_ONE: Final = 64
"""The largest number of resources of one node or queue that get rows; a real node or queue has a dozen."""
_MOST_NAMED: Final = 10  # resources that a message names
_LARGEST: Final = 2**60  # the largest accepted quantity
_PARTS: Final = re.compile(
    r"volcano\.sh/vgpu-memory-percentage|huawei\.com/Ascend\w*-memory"
)  # amounts of a part of a card, which no node advertises
_CEILING: Final = 2**58  # larger amounts are cut to this, so that a sum of some dozens cannot overflow; no real node has as much


class Dimensions:
    """The rows of the arrays of amounts, by resource name. Rows 0, 1 and 2 are cpu, memory and pods.

    Only resources that a node has or a queue limits get rows of their own, so that requests of pods cannot make the arrays grow.
    All other resources are counted together in row UNKNOWN. No node has an allocatable amount in row UNKNOWN. Pods may still use
    some on nodes that had such a resource earlier. A pod that requests a resource of row UNKNOWN fits no node.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.names: tuple[str, ...] = _FIXED  # replaced, never changed in place: readers keep a constant tuple; "" is a free row
        self._rows = {name: row for row, name in enumerate(_FIXED) if row != UNKNOWN}
        self.add(names)

    def __len__(self) -> int:
        return len(self.names)

    def row(self, name: str) -> int:
        """Return the row of the arrays in which resource `name` is counted."""
        return self._rows.get(name, UNKNOWN)

    def find(self, name: str) -> int | None:
        """Return the row of resource `name`, None if the resource has no row of its own."""
        return self._rows.get(name)

    def missing(self, names: Iterable[str]) -> list[str]:
        """Return the names that have no row of their own, sorted."""
        return sorted(name for name in names if name not in self._rows)

    def add(self, names: Iterable[str]) -> list[int]:
        """Give a row to each of these resources while rows are free. Return the new rows."""
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
        """Free the rows of all resources but those in `kept`. Return all rows that are free afterwards."""
        listed = [name if name in kept or name in _FIXED else "" for name in self.names]
        self._rename(listed)
        return [row for row, name in enumerate(listed) if not name]

    @property
    def left(self) -> int:
        """The number of resources that may still get a row."""
        return MOST - len(self.names) + self.names.count("")

    def vector(self, amounts: Amounts) -> Ints:
        """Return the request of one object as a vector. Amounts that are absurdly large are cut off."""
        vector = np.zeros(len(self.names), dtype=np.int64)
        for name, amount in amounts.items():
            row = self.row(name)
            vector[row] = min(int(vector[row]) + amount, _CEILING)
        return vector

    def known(self, amounts: Amounts) -> Ints:
        """Return the amounts that one object has as a vector, without resources that have no row of their own."""
        vector = self.vector(amounts)
        vector[UNKNOWN] = 0
        return vector

    def asked(self, amounts: Amounts) -> npt.NDArray[np.float64]:
        """Return sums of requests, which may be of any size, as a vector."""
        vector = np.zeros(len(self.names))
        for name, amount in amounts.items():
            vector[self.row(name)] += amount
        return vector

    def sums(self, amounts: Amounts) -> npt.NDArray[np.float64]:
        """Return amounts as a vector of floats. Resources that have no row of their own are left out."""
        return np.array([amounts.get(name, 0) for name in self.names], dtype=np.float64)

    def named(self, rows: Iterable[int], amounts: Amounts) -> list[tuple[str, int]]:
        """Return the names of the resources in `rows`, each with its row.

        Row UNKNOWN stands for the first few resources without a row that `amounts` contains. A resource with amount 0 is only
        named if all of those have amount 0.
        """
        found: list[tuple[str, int]] = []
        for row in rows:
            unknown = self.missing(amounts) if row == UNKNOWN else []
            names = [name for name in unknown if amounts[name]] or unknown or [self.names[row]]
            found += [(name, row) for name in names[:_MOST_NAMED]]
        return found

    def frozen(self) -> Dimensions:
        """Return a copy that does not change when this object changes."""
        copy = Dimensions()
        copy.names, copy._rows = self.names, self._rows
        return copy

    def _rename(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._rows = {name: row for row, name in enumerate(names) if name and row != UNKNOWN}


def counted_of(names: Iterable[str]) -> list[str]:
    """Return those of an object's resources that get rows: the first ones in sorted order if there are too many."""
    return sorted(set(names).difference(_FIXED))[:MOST_OF_ONE]


def summed(parts: Iterable[Amounts]) -> Amounts:
    """Return the sum of several amounts."""
    total: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, 0) + amount
    return total


def amounts_of(resources: Mapping[str, object]) -> dict[str, int]:
    """Convert a Kubernetes resource list to stored units.

    The units are milli-cores for cpu, bytes for memory, whole numbers for pods, and thousandths for scalar resources. Names that
    the scheduler does not count (`storage`, `count/…`) are left out. Names that request a part of a card are left out too: no
    node advertises such an amount, and the plugin deviceshare counts the free part.

    Raises:
        ValueError: a quantity is malformed, negative or absurdly large; the text names the resource.
    """
    found = ((name, _amount(name, str(text))) for name, text in resources.items())
    return {name: amount for name, amount in found if amount is not None}


@functools.lru_cache(4096)  # many pods request the same few amounts, and many nodes offer the same few
def _amount(name: str, text: str) -> int | None:
    """Convert one amount of a resource list; None if the scheduler does not count that resource."""
    if not counts(name) or _PARTS.fullmatch(name):
        return None
    amount = stored_amount(name, text)
    if not 0 <= amount <= _LARGEST:
        raise ValueError(f"{name}: {text} is out of range")
    return amount
