"""Resource vectors: requests of a pod or limits of a queue, as numbers that can be compared and added.

CPU is in thousandths of a core, memory in bytes, pods are a number, and every other resource is in thousandths. Vectors are
separate from quantities, because they follow the scheduler's rules: which resources are counted, and what a missing one means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from pyroclast.resources import quantity

EPSILON: Final = 0.1
"""Amounts with a smaller difference are equal, in the unit of each dimension."""

_CPU, _MEMORY, _PODS = "cpu", "memory", "pods"
_ALWAYS: Final = (_CPU, _MEMORY)  # part of every comparison, even when absent


class Missing(Enum):
    """The meaning of a dimension that is absent on the right side of a comparison."""

    ZERO = "nothing"
    INFINITY = "no limit"


@dataclass(frozen=True, slots=True)
class Vector:
    """Amounts by dimension. An absent dimension differs from zero; only CPU and memory are always compared."""

    amounts: Mapping[str, float]

    def __getitem__(self, name: str) -> float:
        return self.amounts.get(name, 0.0)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the dimensions: CPU, memory, and the other dimensions in alphabetical order."""
        return (*_ALWAYS, *sorted(self.amounts.keys() - set(_ALWAYS)))

    @property
    def is_empty(self) -> bool:
        """Whether nothing is requested, apart from the one unit of `pods` that every pod requests."""
        return all(amount < EPSILON for name, amount in self.amounts.items() if name != _PODS)

    def __add__(self, other: Vector) -> Vector:
        return self._with(other, lambda left, right: left + right)

    def __sub__(self, other: Vector) -> Vector:
        return self._with(other, lambda left, right: left - right)

    def __mul__(self, factor: float) -> Vector:
        return Vector({name: amount * factor for name, amount in self.amounts.items()})

    def maximum(self, other: Vector) -> Vector:
        """Return the larger amount of each dimension."""
        return self._with(other, max)

    def minimum(self, other: Vector, *, missing: Missing) -> Vector:
        """Return the smaller amount of each dimension of this vector. `missing`: the value of a dimension that `other` lacks."""
        kept = {
            name: amount if missing is Missing.INFINITY and name not in other.amounts else min(amount, other[name])
            for name, amount in self.amounts.items()
        }
        return Vector(kept)

    def exceeding(self, limit: Vector, *, missing: Missing = Missing.ZERO) -> tuple[str, ...]:
        """Return the dimensions of this vector that exceed `limit`, in the order of `names`. `missing`: the limit of a
        dimension that `limit` lacks.
        """
        return tuple(name for name in self.names if not self._is_within(name, limit, missing))

    def fits(self, limit: Vector, *, missing: Missing = Missing.ZERO) -> bool:
        """Whether no dimension of this vector exceeds `limit`. `missing`: the limit of a dimension that `limit` lacks.

        With `Missing.INFINITY`, also return False if `limit` has a dimension besides CPU and memory that this vector lacks.
        """
        if missing is Missing.INFINITY and limit.amounts.keys() - self.amounts.keys() - set(_ALWAYS):
            return False
        return not self.exceeding(limit, missing=missing)

    def share_of(self, whole: Vector) -> float:
        """Return the largest ratio of a dimension to that of `whole`; a positive amount of a dimension with whole 0 has
        ratio 1.
        """
        return max((_share(self[name], whole[name]) for name in whole.names), default=0.0)

    def __str__(self) -> str:
        return ", ".join(f"{name} {self[name]:.2f}" for name in self.names)

    def _with(self, other: Vector, combine: Callable[[float, float], float]) -> Vector:
        return Vector({name: combine(self[name], other[name]) for name in {**self.amounts, **other.amounts}})

    def _is_within(self, name: str, limit: Vector, missing: Missing) -> bool:
        if missing is Missing.INFINITY and name not in _ALWAYS and name not in limit.amounts:
            return True
        return self[name] < limit[name] or abs(self[name] - limit[name]) < EPSILON


EMPTY: Final = Vector({})


def counts(name: str) -> bool:
    """Whether a resource is counted in scheduling; `storage` and the counts of a quota are not."""
    if name in (_CPU, _MEMORY, _PODS, "ephemeral-storage") or name.startswith(("hugepages-", "attachable-volumes-")):
        return True
    return "/" in name and not name.startswith(("count/", "requests."))


def from_list(resources: Mapping[str, str | int]) -> Vector:
    """Return the vector of a resource list, without resources that are not counted.

    Raises QuantityError: a value is not a quantity; the text names the resource.
    """
    return Vector({name: float(stored_amount(name, text)) for name, text in resources.items() if counts(name)})


def total(vectors: Iterable[Vector]) -> Vector:
    """Return the sum of all vectors."""
    return sum(vectors, EMPTY)


def stored_amount(name: str, text: str | int) -> int:
    """Return the amount of quantity `text` of resource `name`, in the unit of that dimension.

    Raises QuantityError: `text` is not a quantity; the text of the error names the resource.
    """
    try:
        parsed = quantity.parse(text)
    except quantity.QuantityError as error:
        raise quantity.QuantityError(f"{name}: {text!r}: {error}") from None
    return parsed.value if name in (_MEMORY, _PODS) else parsed.millis


def _share(part: float, whole: float) -> float:
    if whole == 0:
        return 0.0 if part == 0 else 1.0
    return part / whole
