"""Resource dimensions: which row of the columns holds which resource, and resource lists as whole numbers.

Separate from the tables because pods, nodes and queues must agree on the same rows and units.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from pyroclast.resources.vectors import counts, stored_amount

__all__ = ["CPU", "MEMORY", "PODS", "Amounts", "Dimensions", "Ints", "amounts_of"]

Ints = npt.NDArray[np.int64]
Amounts = Mapping[str, int]  # resource name → amount in stored units

CPU: Final = 0
MEMORY: Final = 1
PODS: Final = 2
_FIXED: Final = ("cpu", "memory", "pods")
_LARGEST: Final = 2**60  # what a quantity may be at most
_PARTS: Final = re.compile(
    r"volcano\.sh/vgpu-memory-percentage|huawei\.com/Ascend\w*-memory"
)  # of cards: nodes have none of them
_CEILING: Final = 2**58  # what it counts as at most, so that some dozen of them add up without overflow; no real node comes near


class Dimensions:
    """Rows of the columns by resource name. Rows 0, 1, 2 are cpu, memory and pods; others are added when first seen."""

    def __init__(self, names: Iterable[str] = _FIXED) -> None:
        self.names: list[str] = list(names)
        self._rows = {name: row for row, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def row(self, name: str) -> int:
        """The row of resource `name`, a new one if it was never seen."""
        row = self._rows.get(name)
        if row is None:
            row = self._rows[name] = len(self.names)
            self.names.append(name)
        return row

    def find(self, name: str) -> int | None:
        """The row of resource `name`, None if nobody has it."""
        return self._rows.get(name)

    def vector(self, amounts: Amounts) -> Ints:
        """The amounts of one object as a vector over all dimensions known then; what is absurd is cut off."""
        rows = [(self.row(name), amount) for name, amount in amounts.items()]
        vector = np.zeros(len(self.names), dtype=np.int64)
        for row, amount in rows:
            vector[row] = min(amount, _CEILING)
        return vector

    def sums(self, amounts: Amounts) -> npt.NDArray[np.float64]:
        """Sums of any size as a vector; names never seen are left out."""
        vector = np.zeros(len(self.names))
        for name, amount in amounts.items():
            row = self._rows.get(name)
            if row is not None:
                vector[row] = amount
        return vector

    def frozen(self) -> Dimensions:
        """A copy that later additions here do not reach."""
        return Dimensions(self.names)


def amounts_of(resources: Mapping[str, object]) -> dict[str, int]:
    """A Kubernetes resource list in stored units: cpu in milli-cores, memory in bytes, pods plain, scalars in thousandths.

    Names that the scheduler does not count (`storage`, `count/…`) are left out, and those that say how much of a card is wanted:
    no node has an amount of these, what is left is for the plugin deviceshare to know.

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
