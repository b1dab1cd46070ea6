"""Reading which schedulers are at work."""

from __future__ import annotations

from typing import Any, cast

from pyroclast.api.schedulers import SCHEDULER_NAMES
from pyroclast.kube.basics.errors import ConnectionFailed
from pyroclast.kube.http.client import Client
from pyroclast.kube.lease.scheduler_leases import SchedulerLeases


class Leases:
    """The Leases of a cluster whose clock the test turns."""

    def __init__(self) -> None:
        self.time, self.is_away, self.renewals = 1000.0, False, {"volcano": 0}

    def now(self) -> float:
        return self.time

    async def list(self, kind: object, *, field_selector: str) -> tuple[list[Any], str]:
        assert field_selector == "metadata.namespace!=kube-node-lease"
        if self.is_away:
            raise ConnectionFailed("connection refused")
        return [self._lease(name, renewal) for name, renewal in self.renewals.items()], "1"

    def _lease(self, name: str, renewal: int) -> dict[str, Any]:
        """The clock of the leader goes an hour wrong."""
        stamp = f"2026-11-24T12:00:{renewal:02}.000000Z"
        metadata = {"name": name, "namespace": "system", "annotations": {SCHEDULER_NAMES: name}}
        return {"metadata": metadata, "spec": {"holderIdentity": "x", "leaseDurationSeconds": 15, "renewTime": stamp}}


class Reader:
    """Reads every five seconds; `told`: how often somebody came or went."""

    def __init__(self) -> None:
        self.leases, self.told = Leases(), 0
        self.schedulers = SchedulerLeases(cast("Client", self.leases))
        self.schedulers.on_change(self._changed)

    def _changed(self) -> None:
        self.told += 1

    async def after(self, seconds: int, *, renewing: bool = True) -> bool:
        """Whether the scheduler is live after so long."""
        for _ in range(0, seconds, 5):
            self.leases.time += 5
            self.leases.renewals["volcano"] += renewing
            await self.schedulers.read()
        return self.schedulers.current is not None and "volcano" in self.schedulers.current.live


async def test_a_renewing_scheduler_is_live_despite_its_wrong_clock() -> None:
    reader = Reader()
    assert await reader.after(120)
    assert reader.told == 1


async def test_a_scheduler_is_not_live_half_a_minute_after_its_last_renewal() -> None:
    reader = Reader()
    assert await reader.after(20)
    assert await reader.after(25, renewing=False)
    assert not await reader.after(10, renewing=False)
    assert reader.told == 2
    assert await reader.after(5)
    assert reader.told == 3


async def test_an_api_server_outage_does_not_count_as_missed_renewals() -> None:
    reader = Reader()
    assert await reader.after(20)
    reader.leases.is_away = True
    assert await reader.after(120, renewing=False)
    reader.leases.is_away = False
    assert await reader.after(25, renewing=False)
    assert await reader.after(60)
    assert reader.told == 1


async def test_a_new_scheduler_lease_is_detected_and_reported() -> None:
    reader = Reader()
    await reader.after(5)
    reader.leases.renewals["mine"] = 0
    await reader.after(5)
    assert reader.schedulers.current is not None
    assert reader.schedulers.current.at_work == ["mine", "volcano"]
    assert reader.told == 2
