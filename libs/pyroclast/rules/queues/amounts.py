"""Resource lists of queues as vectors that can be added and compared, and their numbers in messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyroclast.resources.quantity import Format, from_millis, from_value
from pyroclast.rules.amounts import amount
from pyroclast.rules.podspecs.requirements import HUGE_PAGES, is_extended

_COUNTS = "count/"
_KUBERNETES = "kubernetes.io/"
_VOLUMES = "attachable-volumes-"


@dataclass(frozen=True, slots=True)
class Amounts:
    """A resource list: cpu in thousandths, memory in bytes, pods in `others` as a number, all other `others` in thousandths."""

    cpu: int = 0
    memory: int = 0
    others: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, resources: Mapping[str, Any]) -> Amounts:
        """Return the vector of a resource list in JSON, without the names that queues do not count."""
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
        """Return the amount of every resource by name; cpu and memory are always included."""
        return {"cpu": self.cpu, "memory": self.memory, **self.others}

    def __str__(self) -> str:
        named = "".join(f", {name} {self.others[name]}.00" for name in sorted(self.others))
        return f"cpu {self.cpu}.00, memory {self.memory}.00{named}"


def total(parts: Iterable[Amounts]) -> Amounts:
    """Return the sum of the amounts by resource."""
    cpu = memory = 0
    others: dict[str, int] = {}
    for part in parts:
        cpu, memory = cpu + part.cpu, memory + part.memory
        for name, value in part.others.items():
            others[name] = others.get(name, 0) + value
    return Amounts(cpu, memory, others)


def exceeds(whole: Amounts, limit: Amounts) -> bool:
    """Whether `whole` exceeds `limit` in any dimension; a dimension without a limit has the limit 0."""
    return (
        whole.cpu > limit.cpu
        or whole.memory > limit.memory
        or any(value > limit.others.get(name, 0) for name, value in whole.others.items())
    )


def shown(name: str, value: int) -> str:
    """Return the amount of one resource in the form that messages use."""
    if name == "cpu":
        return str(from_millis(value))
    return str(from_value(value, Format.BINARY_SI)) if name == "memory" else f"{value}.00"
