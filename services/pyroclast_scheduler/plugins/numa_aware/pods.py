"""What a pod asks of the NUMA nodes: its policy, and CPUs for the own use of its containers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from pyroclast.api import keys, records
from pyroclast.api.enums import NumaPolicy
from pyroclast.resources import quantity
from pyroclast.resources.pods import quality_of_service

__all__ = ["Wanted", "wanted"]

_GUARANTEED: Final = "Guaranteed"
_MILLIS: Final = 1000


@dataclass(frozen=True, slots=True)
class Wanted:
    """The exclusive CPUs that a pod asks for, and its NUMA policy.

    `policy`: that of the pod, empty where it has none. `counts`: by container the CPUs for its own use, 0 where it shares.

    `names`: of the containers. Init containers do not count.
    """

    policy: str
    counts: tuple[int, ...]
    names: tuple[str, ...]

    @property
    def takes_cpus(self) -> bool:
        """Whether any container gets CPUs for its own use."""
        return any(self.counts)


def wanted(pod: records.Pod) -> Wanted | None:
    """What `pod` asks for; None where it is not of class Guaranteed, so that NUMA nodes do not matter to it."""
    quality = pod.status.qos_class or quality_of_service(msgspec.to_builtins(pod.spec))
    if quality != _GUARANTEED:
        return None
    policy = pod.metadata.annotations.get(keys.NUMA_TOPOLOGY_POLICY, "")
    containers = pod.spec.containers
    return Wanted(
        policy="" if policy == NumaPolicy.NONE else policy,
        counts=tuple(_whole(each.resources.requests.get("cpu", 0)) for each in containers),
        names=tuple(each.name for each in containers),
    )


def _whole(amount: str | int) -> int:
    """Whole CPUs, 0 where the amount is not whole."""
    millis = quantity.parse(amount).millis
    return 0 if millis < 0 or millis % _MILLIS else millis // _MILLIS
