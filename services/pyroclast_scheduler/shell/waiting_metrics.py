"""Metrics of waiting jobs: their number by queue and code, their requests, and the longest wait."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Gauge

from pyroclast_scheduler.explaining.waits import Waits

_KEPT_SECONDS: Final = 600.0  # how long an ended series shows 0 before it is removed, so that dashboards see its end


class WaitingSeries:
    """Gauges that `show` updates. Amounts are in cores, bytes and whole devices."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str, *labels: str) -> KeptSeries:
            return KeptSeries(Gauge(f"pyroclast_{name}", text, ("queue", *labels), registry=registry))

        self._jobs = gauge("waiting_jobs", "Waiting Jobs by waiting code", "code")
        self._resources = gauge("waiting_resources", "Resources that the waiting Jobs request", "resource")
        self._oldest = gauge("oldest_waiting_seconds", "Waiting time of the oldest waiting Job")
        self._held = gauge("estimate_held_ratio", "Part of the last estimates of starts that were correct")
        self._width = gauge("estimate_width_seconds", "Median width of the last estimates of starts")
        self._unexamined = gauge(
            "longest_unexamined_seconds", "Longest time that a new or changed Job has not been examined by a session"
        )

    def show_estimates(self, quality: Mapping[str, tuple[float, float]], now: float) -> None:
        """Export by queue the fraction of the last estimates that were right, and the width of their intervals."""
        self._held.show({(queue,): held for queue, (held, _) in quality.items()}, now)
        self._width.show({(queue,): width for queue, (_, width) in quality.items()}, now)

    def show(self, measured: Waits, now: float) -> None:
        """Export the sums that were measured at `now`."""
        self._jobs.show(measured.jobs, now)
        self._resources.show(measured.resources, now)
        self._oldest.show(measured.oldest, now)
        self._unexamined.show(measured.unexamined, now)


class KeptSeries:
    """A gauge whose ended series show 0 for some time before they are removed."""

    def __init__(self, gauge: Gauge) -> None:
        self._gauge = gauge
        self._last: dict[tuple[str, ...], float] = {}

    def show(self, values: Mapping[tuple[str, ...], float], now: float) -> None:
        """Set `values` by labels. Earlier labels that are missing have ended."""
        for labels, value in values.items():
            self._gauge.labels(*labels).set(value)
            self._last[labels] = now
        for labels, at in list(self._last.items()):
            if labels in values:
                continue
            self._gauge.labels(*labels).set(0)
            if now > at + _KEPT_SECONDS:
                self._gauge.remove(*labels)
                del self._last[labels]
