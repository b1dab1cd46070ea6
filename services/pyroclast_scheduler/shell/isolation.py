"""Isolation: finds the object or plugin that makes a session fail and leaves it out, so that other jobs are scheduled.

A plugin that fails in every session is skipped for some time. Faults of objects are reported by Events and a metric.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection
from concurrent.futures import Executor
from functools import partial
from typing import Final

import structlog

from pyroclast.api.types import NODES, POD_GROUPS, PODS, QUEUES
from pyroclast.kube.events.correlator import Reference
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.cycle import Culprit, find_culprit, find_failing_plugin
from pyroclast_scheduler.model.faults import Fault
from pyroclast_scheduler.model.snapshot import Snapshot
from pyroclast_scheduler.session.configuration import Configuration
from pyroclast_scheduler.session.outcome import Outcome
from pyroclast_scheduler.session.ports import Ports
from pyroclast_scheduler.shell.metrics import SchedulerMetrics

log = structlog.get_logger()


_LEFT_OUT: Final = "LeftOut"
_ALWAYS: Final = frozenset(kind.kind for kind in (NODES, PODS, POD_GROUPS, QUEUES))  # exported even if the number is 0
_PERIODS: Final = 60  # schedule periods before a plugin is tried again, which costs one failed cycle if it fails again
_Decide = Callable[[Snapshot, Configuration, Ports], Outcome]


class FaultReports:
    """Reports each fault of an invalid object once, for as long as the object stays invalid."""

    def __init__(self, recorder: EventRecorder, metrics: SchedulerMetrics) -> None:
        self._recorder = recorder
        self._metrics = metrics
        self._reported: frozenset[Fault] = frozenset()
        self._kinds = _ALWAYS

    def take(self, faults: frozenset[Fault], *, told: Collection[str] = ()) -> None:
        """Report `faults`, all that exist. Those of the groups `told` are reported as their cause of waiting."""
        for fault in faults - self._reported:
            log.warning("object.invalid", kind=fault.kind.kind, namespace=fault.namespace, name=fault.name, reason=fault.reason)
            if fault.group in told and fault.event == _LEFT_OUT:
                continue
            reference = Reference(fault.kind.api_version, fault.kind.kind, fault.namespace, fault.name, fault.uid)
            self._recorder.event(reference, "Warning", fault.event, fault.reason)
        self._reported = faults
        counts = Counter(kind for kind, _, _ in {(fault.kind.kind, fault.namespace, fault.name) for fault in faults})
        self._kinds |= counts.keys()
        for kind in self._kinds:
            self._metrics.problems.labels(kind).set(counts[kind])


class SkippedPlugins:
    """The skipped plugins. Each is tried again after some schedule periods, and at once when the configuration changes."""

    def __init__(self) -> None:
        self._configuration: Configuration | None = None
        self._found: dict[str, tuple[int, str]] = {}

    def skip(self, plugin: str, reason: str, period: int) -> None:
        """Skip `plugin` from now on. `period`: the number of the present schedule period."""
        self._found[plugin] = period + _PERIODS, f"plugin {plugin}: it is skipped, as {reason}"

    def rest_of(self, configuration: Configuration, period: int) -> Configuration:
        """Return `configuration` without the plugins that are skipped in this schedule period."""
        if configuration is not self._configuration:
            self._configuration = configuration
            self._found.clear()
        self._found = {plugin: (until, text) for plugin, (until, text) in self._found.items() if until > period}
        return configuration.without(self._found) if self._found else configuration

    @property
    def warnings(self) -> list[str]:
        """The texts about the plugins that are skipped at present."""
        return [text for _, text in self._found.values()]


class Isolation:
    """Finds what makes sessions fail, by repeating them with `decide` over subsets of the cluster."""

    def __init__(self, cache: Cache, decide: _Decide, metrics: SchedulerMetrics) -> None:
        self._cache = cache
        self._decide = decide
        self._metrics = metrics
        self.skipped = SkippedPlugins()

    async def isolate(self, thread: Executor, configuration: Configuration, ports: Ports, error: Exception) -> bool:
        """Leave the object or plugin out that makes sessions fail, an object until it changes. Return whether one was found.

        If the failure does not occur again, nothing is left out, and the next cycle tries again. `configuration`, `ports`: of the
        failed session, in their state before it.
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
