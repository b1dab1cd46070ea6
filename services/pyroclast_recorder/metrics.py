"""What the recorder counts."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram

__all__ = ["RecorderMetrics"]


class RecorderMetrics:
    """Registers its metrics in `registry`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._rows = Counter("pyroclast_recorder_rows", "Rows written to the database", registry=registry)
        self._lag = Histogram(
            "pyroclast_recorder_lag_seconds",
            "From an event to its row in the database",
            buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
            registry=registry,
        )
        self._gaps = Counter(
            "pyroclast_recorder_gap_seconds", "Time whose events could not be seen any more", ["kind"], registry=registry
        )
        self._incidents = Counter(
            "pyroclast_recorder_incidents", "Rare things met while following", ["kind", "what"], registry=registry
        )

    def written(self, rows: int, seconds: float) -> None:
        """A transaction was committed, whose oldest row waited so long."""
        self._rows.inc(rows)
        self._lag.observe(seconds)

    def gap(self, kind: str, seconds: float) -> None:
        """The events of a kind in so many seconds are lost."""
        self._gaps.labels(kind).inc(max(0.0, seconds))

    def incident(self, kind: str, what: str) -> None:
        """Something that should be rare."""
        self._incidents.labels(kind, what).inc()
