"""Reports problems of the configuration: in the log, as a metric, and as an Event on the scheduler's Lease."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import structlog

from pyroclast.kube.events.correlator import Reference
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast_scheduler.shell.metrics import SchedulerMetrics

log = structlog.get_logger()

_IGNORED: Final = "ConfigurationIgnored"
_REFUSED: Final = "ConfigurationRefused"


class Complaints:
    """Reports problems of the configuration as Events. Reports from before a recorder exists are recorded later."""

    def __init__(self, metrics: SchedulerMetrics) -> None:
        self._metrics = metrics
        self._recorder: EventRecorder | None = None
        self._about: Reference | None = None
        self._early: list[tuple[str, str]] = []

    def record(self, recorder: EventRecorder, about: Reference) -> None:
        """Record Events from now on, also for earlier reports."""
        self._recorder, self._about = recorder, about
        early, self._early = self._early, []
        for reason, message in early:
            self._event(reason, message)

    def passed_over(self, warnings: Iterable[str]) -> None:
        """Report settings that are unknown or have no effect."""
        for warning in warnings:
            log.warning("configuration.passed_over", warning=warning)
            self._metrics.warnings.inc()
            self._event(_IGNORED, warning)

    def refused(self, file: str, reason: str) -> None:
        """Report that a configuration cannot be used and the last usable one stays active."""
        log.error("configuration.refused", file=file, reason=reason, kept="the last good one")
        self._metrics.refused_configurations.inc()
        self._event(_REFUSED, f"{file}: {reason}; the last good configuration stays")

    def _event(self, reason: str, message: str) -> None:
        if self._recorder is None or self._about is None:
            self._early.append((reason, message))
        else:
            self._recorder.event(self._about, "Warning", reason, message)
