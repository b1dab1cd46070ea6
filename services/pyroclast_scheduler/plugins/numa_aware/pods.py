"""The NUMA request of a pod: its policy, and the exclusive CPUs of its containers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from pyroclast.api import keys, records
from pyroclast.api.enums import NumaPolicy
from pyroclast.resources import quantity
from pyroclast.resources.pods import quality_of_service

_GUARANTEED: Final = "Guaranteed"
_MILLIS: Final = 1000


@dataclass(frozen=True, slots=True)
class Wanted:
    """The exclusive CPUs that a pod requests, and its NUMA policy.

    `policy`: the policy of the pod, empty if it has none. `counts`: the exclusive CPUs by container, 0 for shared CPUs. `names`:
    the names of the containers. Init containers are not included.
    """

    policy: str
    counts: tuple[int, ...]
    names: tuple[str, ...]

    @property
    def takes_cpus(self) -> bool:
        """Whether any container gets exclusive CPUs."""
        return any(self.counts)


def wanted(pod: records.Pod) -> Wanted | None:
    """Return the NUMA request of `pod`; None if its QoS class is not Guaranteed, so that NUMA nodes do not matter."""
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
    """Return an amount as whole CPUs, 0 if it is not whole."""
    millis = quantity.parse(amount).millis
    return 0 if millis < 0 or millis % _MILLIS else millis // _MILLIS
