"""Which keys are ours: those of the shards whose Leases this process holds."""

from __future__ import annotations

from pyroclast.api.types import Key
from pyroclast.kube.shards import shard_of

__all__ = ["Shards"]


class Shards:
    """The shards that are led here, of `total`."""

    def __init__(self, total: int = 1) -> None:
        self.total = total
        self._led: set[int] = set()

    def owns(self, key: Key) -> bool:
        """Whether the object of that key is for us to look after."""
        return shard_of(key, self.total) in self._led

    def take(self, shard: int) -> None:
        """The Lease of `shard` is ours."""
        self._led.add(shard)

    def give(self, shard: int) -> None:
        """It no longer is."""
        self._led.discard(shard)
