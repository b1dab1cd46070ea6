"""Reads periodically which schedulers lead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

import structlog

from pyroclast.api.schedulers import NOT_OF_NODES, Schedulers, schedulers_of
from pyroclast.api.types import LEASES
from pyroclast.kube.basics.errors import KubeError
from pyroclast.kube.http.client import Client, Items

log = structlog.get_logger()

PERIOD: Final = 5.0
"""Seconds between two reads. A watch would receive every renewal of every Lease in the cluster, almost all of them irrelevant."""
MISSED: Final = 3
"""Periods without a response after which the API server counts as having been unreachable."""


class SchedulerLeases:
    """The schedulers that lead. `current` is None before the first response, and when Leases may not be read.

    A leader counts as silent when its Lease has not changed for a while, so that the clocks of other machines do not matter.
    While the API server is unreachable, no leader can renew its Lease, so that time does not count.
    """

    def __init__(self, client: Client) -> None:
        self.current: Schedulers | None = None
        self._client = client
        self._listeners: list[Callable[[], None]] = []
        self._complaint = ""
        self._answered = float("-inf")
        self._heard: dict[str, tuple[str, float]] = {}

    def on_change(self, changed: Callable[[], None]) -> None:
        """Call `changed` when a scheduler starts or stops leading."""
        self._listeners.append(changed)

    async def run(self) -> None:
        """Read the Leases forever."""
        while True:
            await self.read()
            await asyncio.sleep(PERIOD)

    async def read(self) -> None:
        """Read the Leases once."""
        try:
            leases, _ = await self._client.list(LEASES, field_selector=NOT_OF_NODES)
        except KubeError as error:
            if str(error) != self._complaint:  # once per reason
                self._complaint = str(error)
                log.warning("schedulers.not_read", error=self._complaint)
            return
        now = self._client.now()
        if now - self._answered > PERIOD * MISSED:
            self._heard = {}
        self._complaint, self._answered = "", now
        self._heard = dict(self._changes(leases, now))
        before, self.current = self.current, schedulers_of(leases, now, {key: at for key, (_, at) in self._heard.items()})
        if before is None or before.live != self.current.live:
            for changed in self._listeners:
                changed()

    def _changes(self, leases: Items, now: float) -> Iterator[tuple[str, tuple[str, float]]]:
        """Yield for each Lease its last renewal, and when that renewal was first seen."""
        for lease in leases:
            key = f"{lease['metadata'].get('namespace')}/{lease['metadata']['name']}"
            renewed = str((lease.get("spec") or {}).get("renewTime"))
            before = self._heard.get(key)
            yield key, before if before and before[0] == renewed else (renewed, now)
