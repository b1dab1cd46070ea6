"""Shards of work, each held by one replica at a time through a Lease; one shard is plain leader election."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pyroclast.api.types import Key
from pyroclast.kube.client import Client

__all__ = ["LeaseLost", "ShardLeases", "shard_of"]


class LeaseLost(Exception):
    """Another replica may have taken over: the work of the shard was stopped."""


def shard_of(key: Key, shards: int) -> int:
    """The shard of `key` among `shards`: FNV-32a of namespace/name."""
    if shards <= 1:
        return 0
    digest = 2166136261
    for byte in f"{key.namespace}/{key.name}".encode():
        digest = (digest ^ byte) * 16777619 & 0xFFFFFFFF
    return digest % shards


class ShardLeases:
    """Campaigns for the Leases of all shards."""

    def __init__(
        self,
        client: Client,
        name: str,
        namespace: str,
        identity: str,
        *,
        shards: int = 1,
        lease_duration: float = 15.0,
        renew_deadline: float = 10.0,
        retry_period: float = 2.0,
    ) -> None:
        self.shards = shards

    @property
    def held(self) -> frozenset[int]:
        """The shards whose Lease is held now."""
        raise NotImplementedError

    async def run(self, lead: Callable[[int], Awaitable[None]]) -> None:
        """Run `lead(shard)` while that shard's Lease is held; release on stop.

        Raises:
            LeaseLost: a Lease could not be renewed in time; everything that was led has been cancelled.
        """
        raise NotImplementedError
