"""Resource lists of queues as vectors that can be summed and compared, and how their numbers are shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyroclast.resources.quantity import Format, from_millis, from_value
from pyroclast.rules.amounts import amount
from pyroclast.rules.podspecs.requirements import HUGE_PAGES, is_extended

__all__ = ["Amounts", "exceeds", "shown", "total"]

_COUNTS = "count/"
_KUBERNETES = "kubernetes.io/"
_VOLUMES = "attachable-volumes-"


@dataclass(frozen=True, slots=True)
class Amounts:
    """A resource list: cpu in thousandths, memory in bytes, `others` in thousandths but for pods, which are counted."""

    cpu: int = 0
    memory: int = 0
    others: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, resources: Mapping[str, Any]) -> Amounts:
        """The vector of a resource list on the wire; names that queues do not count are left out."""
        cpu = memory = 0
        others: dict[str, int] = {}
        for name, value in resources.items():
            given = amount(value)
            if given is None or name.startswith(_COUNTS):
                continue
            if name == "cpu":
                cpu = given.millis
            elif name == "memory":
                memory = given.value
            elif name == "pods":
                others[name] = given.value
            elif name == "ephemeral-storage" or is_extended(name) or name.startswith((HUGE_PAGES, _KUBERNETES, _VOLUMES)):
                others[name] = given.millis
        return cls(cpu, memory, others)

    def dimensions(self) -> dict[str, int]:
        """Every named dimension; cpu and memory are always there."""
        return {"cpu": self.cpu, "memory": self.memory, **self.others}

    def __str__(self) -> str:
        named = "".join(f", {name} {self.others[name]}.00" for name in sorted(self.others))
        return f"cpu {self.cpu}.00, memory {self.memory}.00{named}"


def total(parts: Iterable[Amounts]) -> Amounts:
    """The sum of the amounts, resource by resource."""
    cpu = memory = 0
    others: dict[str, int] = {}
    for part in parts:
        cpu, memory = cpu + part.cpu, memory + part.memory
        for name, value in part.others.items():
            others[name] = others.get(name, 0) + value
    return Amounts(cpu, memory, others)


def exceeds(whole: Amounts, limit: Amounts) -> bool:
    """Whether `whole` is more than `limit` in any dimension; what the limit does not name is 0."""
    return (
        whole.cpu > limit.cpu
        or whole.memory > limit.memory
        or any(value > limit.others.get(name, 0) for name, value in whole.others.items())
    )


def shown(name: str, value: int) -> str:
    """One dimension as messages show it."""
    if name == "cpu":
        return str(from_millis(value))
    return str(from_value(value, Format.BINARY_SI)) if name == "memory" else f"{value}.00"
