"""Collects measurements in the background from the source in the section `metrics` of the configuration."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final

import aiohttp
import structlog

from pyroclast.kube.basics.errors import KubeError
from pyroclast.kube.http.client import Client
from pyroclast.kube.http.transport import BROKEN
from pyroclast.resources import durations
from pyroclast_scheduler.session.configuration import Configuration
from pyroclast_scheduler.session.ports import NodeUsage
from pyroclast_scheduler.shell.usage import adaptor, elasticsearch, prometheus
from pyroclast_scheduler.shell.usage.sources import BadAnswer, Measured, Source

log = structlog.get_logger()

_WINDOW: Final = "10m"
_DEFAULT_SECONDS: Final = 30.0
_PATIENCE_SECONDS: Final = 60.0
_IDLE_SECONDS: Final = 5.0


class Collector:
    """The last measurements of all nodes. `configuration`: returns the active configuration, read before each collection.

    Earlier measurements stay if a source fails. Their age is in `NodeUsage.measured`.
    """

    def __init__(
        self, client: Client, configuration: Callable[[], Configuration], *, now: Callable[[], float] = time.time
    ) -> None:
        self._client = client
        self._configuration = configuration
        self._now = now
        self._usage: Mapping[str, NodeUsage] = {}
        self._trouble = ""

    def usage(self) -> Mapping[str, NodeUsage]:
        """Return the measurements by node; empty if there are none yet."""
        return self._usage

    async def run(self) -> None:
        """Collect at intervals until cancelled."""
        while True:
            settings = self._configuration().metrics
            if settings.get("type"):
                await self.collect()
            elif self._usage:
                self._usage = {}
            await asyncio.sleep(_interval(settings) if settings.get("type") else _IDLE_SECONDS)

    async def collect(self) -> None:
        """Collect once. A problem is logged when it begins, changes or ends."""
        settings = self._configuration().metrics
        trouble = ""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                measured = await self._measured(settings)
            self._usage = _usage(measured, self._now())
        except (BadAnswer, KubeError, ValueError, *BROKEN) as error:
            trouble = str(error) or type(error).__name__
        if trouble != self._trouble:
            self._trouble = trouble
            if trouble:
                log.warning("usage.not_measured", source=settings.get("type"), error=trouble)
            else:
                log.info("usage.measured_again", source=settings.get("type"), nodes=len(self._usage))

    async def _measured(self, settings: Mapping[str, str]) -> Measured:
        kind = settings["type"]
        if kind == "prometheus_adaptor":
            return await adaptor.measured(self._client)
        source = _SOURCES.get(kind)
        if source is None:
            raise BadAnswer(
                f"metrics.type {kind!r} is unknown (there are: {', '.join(sorted([*_SOURCES, 'prometheus_adaptor']))})"
            )
        if not settings.get("address"):
            raise BadAnswer("metrics.address is missing")
        async with aiohttp.ClientSession() as session:
            return await source(session, settings)


_SOURCES: Final[Mapping[str, Source]] = {"elasticsearch": elasticsearch.measured, "prometheus": prometheus.measured}


def _usage(measured: Measured, now: float) -> dict[str, NodeUsage]:
    cpu, memory = measured
    return {
        name: NodeUsage({_WINDOW: cpu.get(name, 0.0)}, {_WINDOW: memory.get(name, 0.0)}, now)
        for name in cpu.keys() | memory.keys()
    }


def _interval(settings: Mapping[str, str]) -> float:
    try:
        seconds = durations.nanoseconds(settings.get("interval", "")) / 1e9
    except durations.DurationError:
        return _DEFAULT_SECONDS
    return seconds if seconds > 0 else _DEFAULT_SECONDS
