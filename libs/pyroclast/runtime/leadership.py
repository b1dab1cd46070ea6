"""Leading: run the work of a service while it holds the Lease, as its settings say."""

from __future__ import annotations

import asyncio
import socket
import uuid
from collections.abc import Awaitable, Callable, Mapping

from pyroclast.kube.client import Client
from pyroclast.kube.events import EventRecorder
from pyroclast.kube.leases import ShardLeases
from pyroclast.runtime.settings import LeaderElectionSettings

__all__ = ["identity", "lead", "shard_leases"]


def identity() -> str:
    """A name of this process that no other has: host name and a random part."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


def shard_leases(
    client: Client,
    settings: LeaderElectionSettings,
    recorder: EventRecorder | None = None,
    annotations: Mapping[str, str] | None = None,
) -> ShardLeases:
    """The Leases that the settings name; `annotations`: what their holder says on them."""
    return ShardLeases(
        client,
        settings.leader_elect_resource_name,
        settings.lease_namespace,
        settings.leader_elect_identity or identity(),
        shards=settings.leader_elect_shards,
        lease_duration=settings.leader_elect_lease_duration.total_seconds(),
        renew_deadline=settings.leader_elect_renew_deadline.total_seconds(),
        retry_period=settings.leader_elect_retry_period.total_seconds(),
        recorder=recorder,
        annotations=annotations,
    )


async def lead(
    client: Client,
    settings: LeaderElectionSettings,
    work: Callable[[int], Awaitable[object]],
    recorder: EventRecorder | None = None,
    annotations: Mapping[str, str] | None = None,
) -> None:
    """Run `work(shard)` for each shard whose Lease is held, or for all of them at once without leader election.

    `annotations`: what the holder says on the Leases.

    Raises:
        LeaseLost: a Lease could not be kept; the work was cancelled.
    """
    if settings.leader_elect:
        async with client.apart() as own:  # no other request may delay a renewal
            await shard_leases(own, settings, recorder, annotations).run(work)
        return
    await asyncio.gather(*(work(shard) for shard in range(settings.leader_elect_shards)))
