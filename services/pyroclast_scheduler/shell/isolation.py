"""Isolation: finds the object or plugin that makes a session fail and leaves it out, so that other jobs are scheduled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial

import structlog

from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.cycle import Culprit, find_culprit, find_failing_plugin
from pyroclast_scheduler.model.snapshot import Snapshot
from pyroclast_scheduler.session.configuration import Configuration
from pyroclast_scheduler.session.outcome import Outcome
from pyroclast_scheduler.session.ports import Ports
from pyroclast_scheduler.shell.metrics import SchedulerMetrics
from pyroclast_scheduler.shell.skipped_plugins import SkippedPlugins

log = structlog.get_logger()

_Decide = Callable[[Snapshot, Configuration, Ports], Outcome]


class Isolation:
    """Finds the object or plugin that makes sessions fail, by repeating the session with subsets of the cluster.

    `decide`: runs one session.
    """

    def __init__(self, cache: Cache, decide: _Decide, metrics: SchedulerMetrics) -> None:
        self._cache = cache
        self._decide = decide
        self._metrics = metrics
        self.skipped = SkippedPlugins()

    async def isolate(self, thread: Executor, configuration: Configuration, ports: Ports, error: Exception) -> bool:
        """Leave the object or plugin out that makes sessions fail, and return whether one was found.

        An object is left out until it changes.

        If the failure does not occur again, nothing is left out, and the next cycle tries again.

        Args:
            thread: the thread of sessions.
            configuration: the configuration of the failed session.
            ports: the ports of the failed session, in their state before it.
            error: the error of the failed session.
        """
        self._cache.read_anew()
        search = partial(self._search, self._cache.snapshot(), configuration, ports)
        culprit = await asyncio.get_running_loop().run_in_executor(thread, search)
        self._cache.stale()
        if culprit is None:
            return False
        self._metrics.failures.inc()
        reason = f"scheduling failed because of it: {type(error).__name__}: {error}"
        log.error("culprit.left_out", kind=culprit.kind, key=culprit.key, reason=reason, exc_info=error)
        if culprit.kind == "plugin":
            self.skipped.skip(culprit.key, reason, ports.period)
        elif culprit.record is not None:
            self._cache.leave_out_object(culprit.record, culprit.key, reason)
        else:
            self._cache.leave_out(culprit.kind, culprit.key, reason)
        return True

    def _search(self, snapshot: Snapshot, configuration: Configuration, ports: Ports) -> Culprit | None:
        def fails(part: Snapshot, by: Configuration = configuration) -> bool:
            try:
                self._decide(part, by, ports.rehearsing())
            except Exception as error:  # noqa: BLE001 - any error counts as a failure
                log.debug("cycle.fails", error=str(error))
                return True
            return False

        return find_culprit(snapshot, fails) or find_failing_plugin(snapshot, configuration, fails)
