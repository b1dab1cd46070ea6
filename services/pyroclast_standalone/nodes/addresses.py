"""Addresses of pods. Each pod has its own address until it has ended."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field


@dataclass(slots=True)
class AddressPool:
    """Allocates the addresses of `network` in turn, so that a released address is not reused soon.

    `last` is the number, within the network, of the address that was allocated last.
    """

    network: ipaddress.IPv4Network
    last: int = 0
    _owners: dict[int, str] = field(default_factory=dict)  # UIDs of pods

    def take(self, uid: str) -> str:
        """Allocate a free address for a pod.

        Raises:
            RuntimeError: all addresses are allocated.
        """
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
