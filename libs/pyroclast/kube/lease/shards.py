"""Shards: the objects of a kind are divided among replicas by a hash of their keys.

One replica at a time leads a shard, by holding its Lease. One shard is leader election.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Final

import structlog

from pyroclast.api.types import LEASES, Key
from pyroclast.kube.events.correlator import Reference
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.kube.http.caller import fenced
from pyroclast.kube.http.client import Client
from pyroclast.kube.lease.lease import HandedOver, Lease, LeaseTiming

log = structlog.get_logger()


class ShardLeases:
    """Campaigns for the Leases of all shards: `name` when there is one shard, else `name-0`, `name-1`, ….

    Replicas share the shards evenly: a replica that has at least two shards fewer than another asks the other replica to hand
    over a shard. `recorder`: records on the Lease who leads; None for no Events. `annotations`: annotations that the holder sets
    on the Lease. `now`: the wall clock, for the times in the Lease that people read.
    """

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
        recorder: EventRecorder | None = None,
        annotations: Mapping[str, str] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        timing = LeaseTiming(lease_duration, renew_deadline, retry_period)
        self.identity = identity
        self.shards = shards
        self._recorder = recorder
        names = [name] if shards <= 1 else [f"{name}-{shard}" for shard in range(shards)]
        self._leases = [Lease(client, Key(namespace, each), identity, timing, now, annotations=annotations) for each in names]
        self._held: set[int] = set()

    @property
    def held(self) -> frozenset[int]:
        """The shards whose Lease this replica holds now."""
        return frozenset(self._held)

    def holder(self, shard: int) -> str:
        """Return who held the Lease of `shard` at the last read; empty for nobody or unknown."""
        return self._leases[shard].observed

    async def run(self, lead: Callable[[int], Awaitable[object]]) -> None:
        """Run `lead(shard)` while that shard's Lease is held, until all calls have returned; then release all held Leases.

        Raises LeaseLost: a Lease could not be renewed; all calls of `lead` were cancelled and have ended; Exception: the
        exception that `lead` raised.
        """
        try:
            async with asyncio.TaskGroup() as group:
                campaigns = [group.create_task(self._campaign(shard, lead)) for shard in range(len(self._leases))]
                # Waits inside the block: Python 3.11 leaves a cancellation behind when a task fails while the block is being
                # left.
                await asyncio.wait(campaigns)
        except BaseExceptionGroup as errors:
            task = asyncio.current_task()
            if task is not None and task.cancelling():  # a Lease lost during a stop must not look like a reason to continue
                raise asyncio.CancelledError from errors
            raise _first(errors) from None

    async def _campaign(self, shard: int, lead: Callable[[int], Awaitable[object]]) -> None:
        lease = self._leases[shard]
        handed_over = True
        while handed_over:
            await lease.acquire(lambda: self._should_ask(shard))
            handed_over = await self._lead(shard, lease, lead)

    async def _lead(self, shard: int, lease: Lease, lead: Callable[[int], Awaitable[object]]) -> bool:
        """Lead until the work returns (False) or the Lease is handed over (True); the Lease is released in both cases."""
        self._held.add(shard)
        log.info("lease.acquired", lease=str(lease.key), identity=self.identity)
        self._record(lease, "became leader")
        handed_over = False

        async def renew(leading: asyncio.Task[None]) -> None:
            nonlocal handed_over
            try:
                await lease.keep(self._may_hand_over)
            except HandedOver:
                handed_over = True
                leading.cancel()
                await lease.keep(lambda _: False)  # also while the work ends

        try:
            async with asyncio.TaskGroup() as group:
                leading = group.create_task(_fenced(lease, lead(shard)))
                renewing = group.create_task(renew(leading))
                try:
                    await asyncio.wait([leading])
                finally:
                    await _ended(leading)  # the Lease is renewed until then
                    renewing.cancel()
        finally:
            self._held.discard(shard)
            log.info("lease.given_up", lease=str(lease.key), identity=self.identity)
            self._record(lease, "stopped leading")
            await lease.release()
        return handed_over

    def _should_ask(self, shard: int) -> bool:
        """Whether the holder of `shard` should hand this shard over to this replica.

        The holder must have the most shards and at least two more than this replica; only its first shard is handed over.
        """
        holder = self._leases[shard].observed
        loads = Counter(lease.observed for lease in self._leases if lease.observed)
        first = next(number for number, lease in enumerate(self._leases) if lease.observed == holder)
        return shard == first and loads[holder] == max(loads.values()) and loads[holder] >= len(self._held) + 2

    def _may_hand_over(self, other: str) -> bool:
        return len(self._held) >= sum(lease.observed == other for lease in self._leases) + 2

    def _record(self, lease: Lease, what: str) -> None:
        if self._recorder is not None:
            about = Reference(LEASES.api_version, LEASES.kind, lease.key.namespace, lease.key.name, lease.uid)
            self._recorder.event(about, "Normal", "LeaderElection", f"{self.identity} {what}")


async def _fenced(lease: Lease, work: Awaitable[object]) -> None:
    with fenced(lease.closed_because):
        await work


async def _ended(work: asyncio.Task[None]) -> None:
    """Cancel `work` once if it has not ended, and wait for its end."""
    if not work.done():
        if not work.cancelling():
            work.cancel()
        await asyncio.wait([work])


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first single exception in a tree of groups."""
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


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
