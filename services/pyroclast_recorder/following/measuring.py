"""Measuring what pods use, by the metrics API of the cluster (metrics-server)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import structlog

from pyroclast.api.types import ResourceType
from pyroclast.kube.basics.errors import ApiError, KubeError
from pyroclast.kube.http.client import Client
from pyroclast.resources import quantity
from pyroclast_recorder.database.database import Database, DatabaseUnavailable
from pyroclast_recorder.database.tables import pod_use
from pyroclast_recorder.facts.folding import Fold
from pyroclast_recorder.facts.units import whole_amounts
from pyroclast_recorder.following.writer import Writer
from pyroclast_recorder.hourly_usage import DAY

__all__ = ["POD_METRICS", "Meter"]

log = structlog.get_logger()

POD_METRICS: Final = ResourceType("metrics.k8s.io", "v1beta1", "pods", "PodMetrics")
SOURCE: Final = "metrics-server"
UNSERVED: Final = (403, 404, 503)
FLUSH_SECONDS: Final = 300.0
ABSENT_SECONDS: Final = 300.0
"""After which a metrics API that is not there is asked for again."""


class Meter:
    """Takes a sample of all running pods each period, and writes what they make of it every few minutes.

    A pod that ends is written when it is missing for the first time, and one that runs on begins anew each day. What a replica
    has in memory when it ends is lost: at most the samples of a few minutes.
    """

    def __init__(self, client: Client, database: Database, writer: Writer, now: Callable[[], float], period: float) -> None:
        self._client, self._database, self._writer, self._now, self._period = client, database, writer, now, period
        self._folds: dict[str, dict[str, Fold]] = {}
        self._flushed = float("-inf")
        self._day = 0

    async def run(self) -> None:
        """Measure for ever."""
        while True:
            pause = self._period
            try:
                if not await self.sample():
                    pause = max(self._period, ABSENT_SECONDS)
            except (KubeError, DatabaseUnavailable) as error:
                log.info("recorder.not_measured", error=str(error))
            await asyncio.sleep(pause)

    async def sample(self) -> bool:
        """Take one sample; False where nobody measures."""
        try:
            measured, _ = await self._client.list(POD_METRICS, limit=0)
        except ApiError as error:
            if error.status in UNSERVED:
                return False
            raise
        running = await self._database.running_pods()
        now = int(self._now())
        if now // DAY != self._day:
            await self._flush(set(running.values()), now, are_all=True)
            self._folds.clear()
            self._day = now // DAY
        for each in measured:
            uid = running.get((str(each["metadata"].get("namespace")), str(each["metadata"].get("name"))))
            if uid is not None:
                folds = self._folds.setdefault(uid, {})
                for resource, amount in _used(each.get("containers") or ()).items():
                    folds.setdefault(resource, Fold(now)).add(amount)
        await self._flush(set(running.values()), now, are_all=now - self._flushed >= FLUSH_SECONDS)
        return True

    async def _flush(self, running: set[str], now: int, *, are_all: bool) -> None:
        """Write pods that have ended, and all of them when it is time."""
        for uid in [uid for uid in self._folds if are_all or uid not in running]:
            for resource, fold in self._folds[uid].items():
                row = {"pod": uid, "resource": resource, "source": SOURCE, **fold.row()}
                await self._writer.add(pod_use, fold.samples, row)
            if uid not in running:
                del self._folds[uid]
        if are_all:
            self._flushed = float(now)


def _used(containers: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """What the containers of a pod use together, in whole units; what cannot be read counts as nothing."""
    found: dict[str, quantity.Quantity] = {}
    for container in containers:
        for name, text in (container.get("usage") or {}).items():
            try:
                amount = quantity.parse(str(text))
            except quantity.QuantityError:
                continue
            found[name] = found.get(name, quantity.ZERO) + amount
    return dict.fromkeys(found, 0) | whole_amounts(found)
