"""Addresses of pods: each pod has one of its own until it has ended."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field

__all__ = ["AddressPool"]


@dataclass(slots=True)
class AddressPool:
    """Gives out the addresses of `network` in turn, so that one that was given back is not seen again soon.

    `last`: the number in the network of the address that was given out last.
    """

    network: ipaddress.IPv4Network
    last: int = 0
    _owners: dict[int, str] = field(default_factory=dict)  # uids of pods

    def take(self, uid: str) -> str:
        """A free address for a pod.

        Raises:
            RuntimeError: all are taken.
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
        """Enter the address that a pod has already."""
        self._owners[int(ipaddress.ip_address(address))] = uid

    def give_back(self, uid: str, address: str) -> None:
        """A pod no longer needs its address, which may belong to another one by now."""
        if address and self._owners.get(number := int(ipaddress.ip_address(address))) == uid:
            del self._owners[number]
