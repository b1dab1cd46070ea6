"""Leadership: runs the work of a service while the service holds the Lease that its settings name.

While a program with the same task, such as that of an installed Volcano, holds its Lease, the service does nothing.
"""

from __future__ import annotations

import asyncio
import socket
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from typing import Final

import structlog

from pyroclast.api.types import LEASES, Key
from pyroclast.kube.basics.errors import KubeError, NotFound
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.kube.http.client import Client
from pyroclast.kube.lease.lease import LeaseLost
from pyroclast.kube.lease.record import LeaseView, Watcher
from pyroclast.kube.lease.shards import ShardLeases
from pyroclast.runtime.settings import LeaderElectionSettings

log = structlog.get_logger()


FREE_SECONDS: Final = 15.0
"""Seconds without a change after which a Lease counts as abandoned, if its own duration is not longer."""

LONG_AGO_SECONDS: Final = 120.0
"""Seconds: a Lease whose last renewal is older, by the clock of the API server, counts as abandoned at once."""

LOOK_SECONDS: Final = 5.0


class Predecessors:
    """Watches Leases that other programs may hold, without ever writing them."""

    def __init__(self, client: Client, leases: Sequence[Key], now: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._leases = {key: Watcher(FREE_SECONDS) for key in leases}
        self._now = now
        self._said = ""

    async def gone(self) -> None:
        """Wait until no program holds any of the Leases."""
        while holder := await self._holder():
            self._say("leading.waits_for_another", holder)
            await asyncio.sleep(LOOK_SECONDS)

    async def back(self) -> None:
        """Wait until a program holds one of the Leases, then raise LeaseLost."""
        while not (holder := await self._holder()):
            await asyncio.sleep(LOOK_SECONDS)
        raise LeaseLost(f"another program does our work: {holder}")

    async def _holder(self) -> str:
        """Return a description of a held Lease and its holder; empty when no Lease is held."""
        for key, watcher in self._leases.items():
            try:
                lease = LeaseView.of(await self._client.get(LEASES, key))
            except NotFound:
                continue
            except KubeError as error:
                self._say("leading.lease_unknown", f"lease {key}: {error}")
                continue
            if not watcher.is_free(lease, "", self._now()) and not self._is_old(lease):
                return f"lease {key} is held by {lease.holder}"
        return ""

    def _is_old(self, lease: LeaseView) -> bool:
        renewed = str((lease.body.get("spec") or {}).get("renewTime") or "")
        try:
            return datetime.fromisoformat(renewed).timestamp() < self._client.now() - LONG_AGO_SECONDS
        except ValueError:
            return not lease.holder

    def _say(self, event: str, reason: str) -> None:
        if reason != self._said:
            self._said = reason
            log.warning(event, reason=reason)


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
    when one is held again. `annotations`: the annotations that the holder sets on the Leases. Raises LeaseLost: a Lease could not
    be renewed, or another program leads; `work` was cancelled.
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
