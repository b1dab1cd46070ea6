"""Leadership: runs the work of a service while the service holds the Lease that its settings name."""

from __future__ import annotations

import asyncio
import socket
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping

from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.kube.http.client import Client
from pyroclast.kube.lease.predecessors import Predecessors
from pyroclast.kube.lease.shard_leases import ShardLeases
from pyroclast.runtime.settings import LeaderElectionSettings


def identity() -> str:
    """Return a unique name of this process: the host name and a random part."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


def shard_leases(
    client: Client,
    settings: LeaderElectionSettings,
    recorder: EventRecorder | None = None,
    annotations: Mapping[str, str] | None = None,
) -> ShardLeases:
    """Return the Leases that the settings name. `annotations`: the annotations that the holder sets on them."""
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
    """Run `work(shard)` for each shard whose Lease is held; without leader election, for all shards at once.

    If the settings name Leases of other programs with the same task, this function waits until none of them is held. It stops
    when one is held again. `annotations`: the annotations that the holder sets on the Leases.

    Raises:
        LeaseLost: a Lease could not be renewed, or another program leads; `work` was cancelled.
    """
    if settings.leader_elect:
        async with client.apart() as own:  # no other request may delay a renewal
            leases = shard_leases(own, settings, recorder, annotations)
            if settings.leader_elect_wait_for:
                predecessors = Predecessors(own, settings.predecessors)
                await predecessors.gone()
                await _first_of(leases.run(work), predecessors.back())
            else:
                await leases.run(work)
        return
    await asyncio.gather(*(work(shard) for shard in range(settings.leader_elect_shards)))


async def _first_of(*works: Coroutine[object, object, None]) -> None:
    """Run `works` until one ends, and raise its error. The others are cancelled, and have ended."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for task in done:
        task.result()
