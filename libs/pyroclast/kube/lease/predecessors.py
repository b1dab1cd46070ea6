"""Leases of other programs with the same task, such as those of an installed Volcano.

Pyroclast does nothing while one is held.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

import structlog

from pyroclast.api.types import LEASES, Key
from pyroclast.kube.basics.errors import KubeError, NotFound
from pyroclast.kube.http.client import Client
from pyroclast.kube.lease.lease import LeaseLost
from pyroclast.kube.lease.record import LeaseView, Watcher

log = structlog.get_logger()

FREE_SECONDS: Final = 15.0
"""Seconds without a change after which a Lease counts as abandoned, if its own duration is not longer."""

LONG_AGO_SECONDS: Final = 120.0
"""Seconds: a Lease whose last renewal is older, by the clock of the API server, counts as abandoned at once."""

LOOK_SECONDS: Final = 5.0


class Predecessors:
    """Watches Leases that other programs may hold, without ever writing them.

    Args:
        client: the API server.
        leases: the keys of the Leases.
        now: returns seconds of a monotonic clock.
    """

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
        """Wait until a program holds one of the Leases, then raise LeaseLost.

        Raises:
            LeaseLost: a program holds one of the Leases.
        """
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
