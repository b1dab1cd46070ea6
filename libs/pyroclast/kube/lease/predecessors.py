"""Leases of other programs that do our work, such as those of an installed Volcano: we do nothing while one of them does."""

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

__all__ = ["Predecessors"]

log = structlog.get_logger()

FREE_SECONDS: Final = 15.0
"""How long a Lease must stay as it is until its holder counts as gone, if that promised no longer."""

LONG_AGO_SECONDS: Final = 120.0
"""A Lease whose last renewal is older than this by the clock of the API server is free at once."""

LOOK_SECONDS: Final = 5.0


class Predecessors:
    """Watches Leases that others may hold; none is ever written.

    Args:
        client: the API server.
        leases: which.
        now: seconds of a clock that does not go back.
    """

    def __init__(self, client: Client, leases: Sequence[Key], now: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._leases = {key: Watcher(FREE_SECONDS) for key in leases}
        self._now = now
        self._said = ""

    async def gone(self) -> None:
        """Wait until nobody holds any of them."""
        while holder := await self._holder():
            self._say("leading.waits_for_another", holder)
            await asyncio.sleep(LOOK_SECONDS)

    async def back(self) -> None:
        """Wait until somebody holds one of them.

        Raises:
            LeaseLost: that is so.
        """
        while not (holder := await self._holder()):
            await asyncio.sleep(LOOK_SECONDS)
        raise LeaseLost(f"another program does our work: {holder}")

    async def _holder(self) -> str:
        """Who holds one of the Leases; empty for nobody."""
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
