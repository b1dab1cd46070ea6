"""Resource vectors: what a pod asks for or a queue may use, as numbers that can be compared and added.

CPU counts in thousandths of a core, memory in bytes, pods one by one, every other resource in thousandths. Separate from
quantities because vectors follow the scheduler's rules (which names count, what a missing one means), not those of the API.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from pyroclast.resources import quantity
from pyroclast.resources.quantity import Format, Quantity

__all__ = ["EMPTY", "EPSILON", "Missing", "Vector", "counts", "from_list", "stored_amount", "total"]

EPSILON: Final = 0.1
"""Amounts that differ by less are equal, in the stored unit of each dimension."""

_CPU, _MEMORY, _PODS = "cpu", "memory", "pods"
_ALWAYS: Final = (_CPU, _MEMORY)  # take part in every comparison, whether named or not


class Missing(Enum):
    """What the right side of a comparison has of a dimension that it does not name."""

    ZERO = "nothing"
    INFINITY = "no limit"


@dataclass(frozen=True, slots=True)
class Vector:
    """Amounts by dimension. One that is not named is absent, which is not the same as zero; CPU and memory always count."""

    amounts: Mapping[str, float]

    def __getitem__(self, name: str) -> float:
        return self.amounts.get(name, 0.0)

    @property
    def names(self) -> tuple[str, ...]:
        """CPU, memory, and then the other named dimensions in alphabetical order."""
        return (*_ALWAYS, *sorted(self.amounts.keys() - set(_ALWAYS)))

    @property
    def is_empty(self) -> bool:
        """Whether nothing is asked for, the pod itself aside."""
        return all(amount < EPSILON for name, amount in self.amounts.items() if name != _PODS)

    def __add__(self, other: Vector) -> Vector:
        return self._with(other, lambda left, right: left + right)

    def __sub__(self, other: Vector) -> Vector:
        return self._with(other, lambda left, right: left - right)

    def __mul__(self, factor: float) -> Vector:
        return Vector({name: amount * factor for name, amount in self.amounts.items()})

    def maximum(self, other: Vector) -> Vector:
        """The larger amount of each dimension."""
        return self._with(other, max)

    def minimum(self, other: Vector, *, missing: Missing) -> Vector:
        """The smaller amount of each dimension of this vector."""
        kept = {
            name: amount if missing is Missing.INFINITY and name not in other.amounts else min(amount, other[name])
            for name, amount in self.amounts.items()
        }
        return Vector(kept)

    def exceeding(self, limit: Vector, *, missing: Missing = Missing.ZERO) -> tuple[str, ...]:
        """The dimensions of this vector that are larger than in `limit`, in the order of `names`."""
        return tuple(name for name in self.names if not self._is_within(name, limit, missing))

    def fits(self, limit: Vector, *, missing: Missing = Missing.ZERO) -> bool:
        """Whether no dimension is larger than in `limit`. With no limit by default, all that `limit` names must be named."""
        if missing is Missing.INFINITY and limit.amounts.keys() - self.amounts.keys() - set(_ALWAYS):
            return False
        return not self.exceeding(limit, missing=missing)

    def share_of(self, whole: Vector) -> float:
        """The largest share that this vector has of a dimension of `whole`; 1 where there is nothing to share."""
        return max((_share(self[name], whole[name]) for name in whole.names), default=0.0)

    def to_list(self) -> dict[str, str]:
        """As a resource list: canonical quantities by name."""
        return {name: str(_to_quantity(name, amount)) for name, amount in self.amounts.items()}

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
    """Whether a resource takes part in scheduling: not `storage`, nor the counts of a quota."""
    if name in (_CPU, _MEMORY, _PODS, "ephemeral-storage") or name.startswith(("hugepages-", "attachable-volumes-")):
        return True
    return "/" in name and not name.startswith(("count/", "requests."))


def from_list(resources: Mapping[str, str | int]) -> Vector:
    """The vector of a resource list; what does not count is left out.

    Raises:
        QuantityError: a value is no quantity; the text names the resource.
    """
    return Vector({name: float(stored_amount(name, text)) for name, text in resources.items() if counts(name)})


def total(vectors: Iterable[Vector]) -> Vector:
    """The sum of all."""
    return sum(vectors, EMPTY)


def stored_amount(name: str, text: str | int) -> int:
    """The amount of resource `name` that quantity `text` means, in the unit in which its dimension counts.

    Raises:
        QuantityError: no quantity; the text names the resource.
    """
    try:
        parsed = quantity.parse(text)
    except quantity.QuantityError as error:
        raise quantity.QuantityError(f"{name}: {text!r}: {error}") from None
    return parsed.value if name in (_MEMORY, _PODS) else parsed.millis


def _to_quantity(name: str, amount: float) -> Quantity:
    if name == _MEMORY:
        return quantity.from_value(round(amount), Format.BINARY_SI)
    return quantity.from_value(round(amount)) if name == _PODS else quantity.from_millis(round(amount))


def _share(part: float, whole: float) -> float:
    if whole == 0:
        return 0.0 if part == 0 else 1.0
    return part / whole
