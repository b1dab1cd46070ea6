"""The loop: a cycle when something changed, after a short wait for more, and at the latest after the schedule period.

A cycle decides in a thread of its own on its own copy, so that watches, Lease and health go on meanwhile.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

import structlog

from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.cache.snapshot import Snapshot
from pyroclast_scheduler.cycle import run_cycle
from pyroclast_scheduler.framework.configuration import Configuration
from pyroclast_scheduler.framework.outcome import Commit, Note, Outcome
from pyroclast_scheduler.framework.plugin import Action, PluginFactory
from pyroclast_scheduler.framework.session import Ports, Shard
from pyroclast_scheduler.shell.binder import Binder
from pyroclast_scheduler.shell.evictor import Evictor
from pyroclast_scheduler.shell.gangs import GangKeeper
from pyroclast_scheduler.shell.metrics import SchedulerMetrics
from pyroclast_scheduler.shell.writer import Writer

__all__ = ["Loop"]

log = structlog.get_logger()

_COALESCE_SECONDS: Final = 0.002  # a burst of events is waited out …
_LONGEST_COALESCE_SECONDS: Final = 0.010  # … but not longer than this
_STALLED_SECONDS: Final = 120.0  # the longest cycles of the largest clusters take a part of this
_REST: Final = 4.0  # times the length of the last cycle: while events pour in, a fifth of a core is spent on deciding …
_LONGEST_REST_SECONDS: Final = 0.2  # … more where cycles are long, as nothing should wait for the sake of sparing


class Loop:
    """Runs cycles. `wake` may be called from the event loop's thread at any time."""

    def __init__(
        self,
        cache: Cache,
        configuration: Callable[[], Configuration],
        *,
        actions: Mapping[str, Action],
        plugins: Mapping[str, PluginFactory],
        binder: Binder,
        evictor: Evictor,
        writer: Writer,
        keeper: GangKeeper,
        metrics: SchedulerMetrics,
        period: float,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._cache = cache
        self._configuration = configuration
        self._actions = actions
        self._plugins = plugins
        self._binder = binder
        self._evictor = evictor
        self._writer = writer
        self._keeper = keeper
        self._metrics = metrics
        self._period = period
        self._now = now
        self._changes = 0
        self._changed = asyncio.Event()
        self._warned: frozenset[str] = frozenset()
        self.shard: Callable[[], Shard | None] = lambda: None
        self._last_cycle: float | None = None

    def wake(self) -> None:
        """Something changed on which decisions may depend."""
        self._changes += 1
        self._changed.set()

    async def run(self) -> None:
        """Cycle after cycle, until cancelled."""
        thread = ThreadPoolExecutor(1, "session")
        self._last_cycle = time.monotonic()
        try:
            while True:
                self._changed.clear()
                await self._binder.room()
                start = time.perf_counter()
                try:
                    await self._cycle(thread)
                except Exception:  # a plugin's mistake must not stop what else the service does; liveness ends it if it goes on
                    self._metrics.failures.inc()
                    log.exception("cycle.failed")
                    await asyncio.sleep(self._period)
                await asyncio.sleep(min((time.perf_counter() - start) * _REST, _LONGEST_REST_SECONDS, self._period))
                await self._until_change()
        finally:
            thread.shutdown(wait=False, cancel_futures=True)

    def stalled(self) -> str | None:
        """Why this loop makes no progress, None if it does."""
        if self._last_cycle is None:  # not leading
            return None
        silent = time.monotonic() - self._last_cycle
        return f"no scheduling cycle ended well for {silent:.0f} s" if silent > max(_STALLED_SECONDS, 10 * self._period) else None

    def _commit(self, commit: Commit) -> None:
        self._binder.take(commit)
        self._evictor.take(commit)

    async def _until_change(self) -> None:
        try:
            async with asyncio.timeout(self._period):
                await self._changed.wait()
        except TimeoutError:
            return
        deadline = time.monotonic() + _LONGEST_COALESCE_SECONDS
        seen = -1
        while seen != self._changes and time.monotonic() < deadline:
            seen = self._changes
            await asyncio.sleep(_COALESCE_SECONDS)

    async def _cycle(self, thread: ThreadPoolExecutor) -> None:
        start = time.perf_counter()
        loop = asyncio.get_running_loop()
        snapshot: Snapshot = self._cache.snapshot()
        self._metrics.open_session.observe((time.perf_counter() - start) * 1000)
        ports = Ports(
            now=self._now(),
            commit=lambda commit: _later(loop, self._commit, commit),
            observe=self._metrics.observe,
            shard=self.shard(),
        )
        decide = partial(
            run_cycle,
            snapshot,
            self._configuration(),
            actions=self._actions,
            plugins=self._plugins,
            ports=ports,
            uid=str(uuid.uuid4()),
        )
        outcome = await loop.run_in_executor(thread, decide)
        self._take(outcome)
        self._last_cycle = time.monotonic()
        self._metrics.cycle.observe((time.perf_counter() - start) * 1000)
        for job in self._keeper.take(outcome.incomplete, self._now()):
            await self._keeper.release(job)

    def _take(self, outcome: Outcome) -> None:
        outcome.notes += [Note(key, "Warning", "Unschedulable", reason) for key, reason in self._cache.left_out().items()]
        self._writer.take(outcome)
        self._metrics.unready_jobs.set(len(outcome.unready))
        self._metrics.unready_tasks.clear()
        for key, lacking in outcome.unready.items():
            name = key.rpartition("/")[2]
            self._metrics.unready_tasks.labels(name).set(lacking)
            self._metrics.retries.labels(name).inc()
        self._metrics.problems.set(len(self._cache.problems))
        warnings = frozenset(outcome.warnings)
        for warning in sorted(warnings - self._warned):
            log.warning("configuration.passed_over", warning=warning)
            self._metrics.warnings.inc()
        self._warned = warnings


def _later(loop: asyncio.AbstractEventLoop, take: Callable[[Commit], None], commit: Commit) -> None:
    """Hand `commit` from the session's thread to the loop's."""
    loop.call_soon_threadsafe(take, commit)
