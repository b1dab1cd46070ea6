"""What a node has to give: resources and addresses of pods. Like a kubelet, it rejects a bound pod that does not fit. Pure."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyroclast.resources import quantity
from pyroclast.resources.pods import whole_pod
from pyroclast_standalone.nodes import records


@dataclass(slots=True)
class AddressPool:
    """Allocates the addresses of `network` in turn, so that a released address is not reused soon.

    `last` is the number, within the network, of the address that was allocated last.
    """

    network: ipaddress.IPv4Network
    last: int = 0
    _owners: dict[int, str] = field(default_factory=dict)  # UIDs of pods

    def take(self, uid: str) -> str:
        """Allocate a free address for a pod. Raises RuntimeError: all addresses are allocated."""
        first, size = int(self.network.network_address) + 1, self.network.num_addresses - 2
        for step in range(size):
            candidate = first + (self.last + step) % size
            if candidate not in self._owners:
                self.last = candidate - first + 1
                self._owners[candidate] = uid
                return str(ipaddress.IPv4Address(candidate))
        raise RuntimeError(f"no free pod address in {self.network}")

    def keep(self, uid: str, address: str) -> None:
        """Record the address that a pod already has."""
        self._owners[int(ipaddress.ip_address(address))] = uid

    def give_back(self, uid: str, address: str) -> None:
        """Release the address of a pod, unless it belongs to another pod by now."""
        if address and self._owners.get(number := int(ipaddress.ip_address(address))) == uid:
            del self._owners[number]


_PODS = "pods"


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a node rejects a pod, with the kubelet's messages."""

    reason: str
    message: str


def pod_requests(pod: records.Pod) -> Counter[str]:
    """Return the requests of a pod in thousandths, see `whole_pod`, with `pods`."""
    spec = pod.spec
    needed = whole_pod(
        (_millis(each.resources.requests) for each in spec.containers),
        ((_millis(each.resources.requests), each.restart_policy == "Always") for each in spec.init_containers),
        of_pod={} if spec.resources is None else _millis(spec.resources.requests),
        overhead=_millis(spec.overhead),
    )
    return Counter(needed) | Counter({_PODS: 1000})


@dataclass(slots=True)
class Ledger:
    """The requests of the pods on a node, by UID."""

    allocatable: Mapping[str, Any]
    _used: Counter[str] = field(default_factory=Counter)
    _held: dict[str, Counter[str]] = field(default_factory=dict)

    def take(self, uid: str, requests: Counter[str]) -> Refusal | None:
        """Add a pod to the node. Return the reason of the rejection if the pod does not fit."""
        if uid in self._held:
            return None
        for name, wanted in requests.items():
            capacity = quantity.parse(str(self.allocatable.get(name, 0))).millis
            if wanted > capacity - self._used[name]:
                unit = 1 if name == "cpu" else 1000
                text = f"requested: {wanted // unit}, used: {self._used[name] // unit}, capacity: {capacity // unit}"
                return Refusal(f"OutOf{name}", f"Pod was rejected: Node didn't have enough resource: {name}, {text}")
        self.enter(uid, requests)
        return None

    def enter(self, uid: str, requests: Counter[str]) -> None:
        """Add a pod that is already on the node, whether it fits or not."""
        self.release(uid)
        self._held[uid] = requests
        self._used.update(requests)

    def release(self, uid: str) -> None:
        """Remove a pod that has ended."""
        self._used.subtract(self._held.pop(uid, Counter()))


def _millis(quantities: Mapping[str, Any]) -> Counter[str]:
    return Counter({name: quantity.parse(str(value)).millis for name, value in quantities.items()})
