"""The metrics of the recorder."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram

from pyroclast.runtime.metrics import JobEndSeries
from pyroclast_recorder.facts.native_groups import GroupEnd


class RecorderMetrics:
    """The metrics of the recorder, registered in `registry`.

    `since`: earlier ends of PodGroups are not counted, in seconds since the epoch.
    """

    def __init__(self, registry: CollectorRegistry, *, since: float = 0.0) -> None:
        self._since = since
        self._ends = JobEndSeries(registry)
        self._rows = Counter("pyroclast_recorder_rows", "Rows written to the database", registry=registry)
        self._lag = Histogram(
            "pyroclast_recorder_lag_seconds",
            "Time from an event to its row in the database",
            buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
            registry=registry,
        )
        self._gaps = Counter(
            "pyroclast_recorder_gap_seconds", "Seconds in which the events of a kind are lost", ["kind"], registry=registry
        )
        self._incidents = Counter(
            "pyroclast_recorder_incidents", "Rare incidents of lists and watches", ["kind", "what"], registry=registry
        )

    def written(self, rows: int, seconds: float) -> None:
        """Count a committed transaction with `rows` rows. `seconds`: the time for which its oldest row waited."""
        self._rows.inc(rows)
        self._lag.observe(seconds)

    def ended(self, ends: Iterable[GroupEnd]) -> None:
        """Count ends of native PodGroups. The board counts the ends of Jobs."""
        for end in ends:
            if end.at >= self._since:
                self._ends.ended(end.queue, end.phase, end.seconds)

    def queue_gone(self, queue: str) -> None:
        """Remove the series of a deleted queue."""
        self._ends.forget(queue)

    def gap(self, kind: str, seconds: float) -> None:
        """Count `seconds` for which the events of a kind are lost."""
        self._gaps.labels(kind).inc(max(0.0, seconds))

    def incident(self, kind: str, what: str) -> None:
        """Count a rare incident, such as a new list or a reconnection."""
        self._incidents.labels(kind, what).inc()
