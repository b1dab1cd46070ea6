"""The measurement of the use of pods by the metrics API of the cluster (metrics-server), and statistics of its samples."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import structlog

from pyroclast.api.types import ResourceType
from pyroclast.kube.basics.errors import ApiError, KubeError
from pyroclast.kube.http.client import Client
from pyroclast.resources import quantity
from pyroclast_recorder.database.connections import DatabaseUnavailable
from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.tables import pod_use, queue_minutes
from pyroclast_recorder.facts.units import whole_amounts
from pyroclast_recorder.following.writer import Writer
from pyroclast_recorder.hourly_usage import DAY, MINUTE

log = structlog.get_logger()


MOST: Final = 512
"""The most stored samples for the 95th percentile.

Each time this number is exceeded, every second stored sample is dropped, and half as many further samples are stored.
"""


class Fold:
    """The mean, 95th percentile and maximum of samples. `since`: the time of the first sample."""

    def __init__(self, since: int) -> None:
        self.since = since
        self.samples = 0
        self._total = self._largest = 0
        self._kept: list[int] = []
        self._stride = 1

    def add(self, value: int) -> None:
        """Add a sample."""
        if self.samples % self._stride == 0:
            self._kept.append(value)
            if len(self._kept) > MOST:
                self._kept = self._kept[::2]
                self._stride *= 2
        self.samples += 1
        self._total += value
        self._largest = max(self._largest, value)

    def row(self) -> dict[str, Any]:
        """Return the columns of `pod_use` with the statistics."""
        ordered = sorted(self._kept)
        return {
            "since": self.since,
            "samples": self.samples,
            "mean": self._total // max(1, self.samples),
            "p95": ordered[min(len(ordered) - 1, len(ordered) * 95 // 100)] if ordered else 0,
            "largest": self._largest,
        }


POD_METRICS: Final = ResourceType("metrics.k8s.io", "v1beta1", "pods", "PodMetrics")
SOURCE: Final = "metrics-server"
UNSERVED: Final = (403, 404, 503)
FLUSH_SECONDS: Final = 300.0
ABSENT_SECONDS: Final = 300.0
"""Seconds until an unavailable metrics API is tried again."""


class Meter:
    """Samples the use of all running pods each period, and writes their statistics every few minutes.

    The statistics of an ended pod are written when the pod is missing for the first time. A running pod gets new statistics each
    day. A replica that ends loses the samples of a few minutes at most.
    """

    def __init__(self, client: Client, database: Database, writer: Writer, now: Callable[[], float], period: float) -> None:
        self._client, self._database, self._writer, self._now, self._period = client, database, writer, now, period
        self._folds: dict[str, dict[str, Fold]] = {}
        self._flushed = float("-inf")
        self._day = 0

    async def run(self) -> None:
        """Measure each period, until cancelled."""
        while True:
            pause = self._period
            try:
                if not await self.sample():
                    pause = max(self._period, ABSENT_SECONDS)
            except (KubeError, DatabaseUnavailable) as error:
                log.info("recorder.not_measured", error=str(error))
            await asyncio.sleep(pause)

    async def sample(self) -> bool:
        """Take one sample of all running pods; return False when no metrics API is available."""
        try:
            measured, _ = await self._client.list(POD_METRICS, limit=0)
        except ApiError as error:
            if error.status in UNSERVED:
                return False
            raise
        running = await self._database.running_pods()
        uids = {uid for uid, _ in running.values()}
        now = int(self._now())
        if now // DAY != self._day:
            await self._flush(uids, now, are_all=True)
            self._folds.clear()
            self._day = now // DAY
        of_queues: Counter[tuple[str, str]] = Counter()
        for each in measured:
            whose = running.get((str(each["metadata"].get("namespace")), str(each["metadata"].get("name"))))
            if whose is not None:
                uid, queue = whose
                folds = self._folds.setdefault(uid, {})
                for resource, amount in _used(each.get("containers") or ()).items():
                    folds.setdefault(resource, Fold(now)).add(amount)
                    of_queues[queue, resource] += amount
        for (queue, resource), used in of_queues.items():
            row = {"queue": queue, "resource": resource, "minute": now // MINUTE * MINUTE, "used": used}
            await self._writer.add(queue_minutes, 0, row)
        await self._flush(uids, now, are_all=now - self._flushed >= FLUSH_SECONDS)
        return True

    async def _flush(self, running: set[str], now: int, *, are_all: bool) -> None:
        """Write the statistics of ended pods, or of all pods if `are_all`."""
        for uid in [uid for uid in self._folds if are_all or uid not in running]:
            for resource, fold in self._folds[uid].items():
                row = {"pod": uid, "resource": resource, "source": SOURCE, **fold.row()}
                await self._writer.add(pod_use, fold.samples, row)
            if uid not in running:
                del self._folds[uid]
        if are_all:
            self._flushed = float(now)


def _used(containers: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the total use of the containers of a pod, in whole units. Invalid quantities are left out."""
    found: dict[str, quantity.Quantity] = {}
    for container in containers:
        for name, text in (container.get("usage") or {}).items():
            try:
                amount = quantity.parse(str(text))
            except quantity.QuantityError:
                continue
            found[name] = found.get(name, quantity.ZERO) + amount
    return dict.fromkeys(found, 0) | whole_amounts(found)
