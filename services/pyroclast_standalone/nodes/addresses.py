"""Addresses of pods: each pod has one of its own as long as it exists."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field

__all__ = ["AddressPool"]


@dataclass(slots=True)
class AddressPool:
    """Gives out the addresses of `network` in turn, so that one that was given back is not seen again soon."""

    network: ipaddress.IPv4Network
    _taken: set[int] = field(default_factory=set)
    _last: int = 0

    def take(self) -> str:
        """A free address.

        Raises:
            RuntimeError: all are taken.
        """
        first, size = int(self.network.network_address) + 1, self.network.num_addresses - 2
        for step in range(size):
            candidate = first + (self._last + step) % size
            if candidate not in self._taken:
                self._last = candidate - first + 1
                self._taken.add(candidate)
                return str(ipaddress.IPv4Address(candidate))
        raise RuntimeError(f"no free pod address in {self.network}")

    def keep(self, address: str) -> None:
        """Take an address that a pod has already."""
        if address:
            self._taken.add(int(ipaddress.ip_address(address)))

    def give_back(self, address: str) -> None:
        """A pod no longer needs its address."""
        if address:
            self._taken.discard(int(ipaddress.ip_address(address)))
