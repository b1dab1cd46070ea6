"""Shards: the objects of a kind are divided among replicas by a hash of their keys. Each shard has a Lease and one leader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyroclast.api.types import Key

FNV_OFFSET: Final = 2166136261
FNV_PRIME: Final = 16777619


def shard_of(key: Key, shards: int) -> int:
    """Return the shard of `key` among `shards`: FNV-32a of `namespace/name`, modulo the number of shards."""
    if shards <= 1:
        return 0
    digest = FNV_OFFSET
    for byte in f"{key.namespace}/{key.name}".encode():
        digest = (digest ^ byte) * FNV_PRIME & 0xFFFFFFFF
    return digest % shards


class Shards:
    """The shards that this replica leads, that is, whose Leases it holds. `total`: the number of all shards."""

    def __init__(self, total: int = 1) -> None:
        self.total = total
        self._led: set[int] = set()
        self._on_give: list[Callable[[Callable[[Key], bool]], None]] = []

    def shard_of(self, key: Key) -> int:
        """Return the shard of the object with that key."""
        return shard_of(key, self.total)

    def owns(self, key: Key) -> bool:
        """Whether this replica leads the shard of the object with that key."""
        return self.shard_of(key) in self._led

    def on_give(self, forget: Callable[[Callable[[Key], bool]], None]) -> None:
        """Call `forget(selected)` when a shard is given up; `selected(key)` is true for the keys of that shard.

        If this replica leads the shard again later, the stored data about these keys are out of date.
        """
        self._on_give.append(forget)

    def take(self, shard: int) -> None:
        """Add `shard` to the shards that this replica leads, after the replica acquired the Lease of the shard."""
        self._led.add(shard)

    def give(self, shard: int) -> None:
        """Remove `shard` from the shards that this replica leads, after the replica lost the Lease of the shard."""
        self._led.discard(shard)
        for forget in self._on_give:
            forget(lambda key: self.shard_of(key) == shard)
