"""Metrics per queue of how long Jobs ran and how they ended. The board counts Jobs, the recorder counts native PodGroups."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

SECONDS: Final = (10, 60, 600, 3600, 6 * 3600, 86_400)
"""Bounds of the buckets: few, so that a queue has at most 40 series, and equal in all services, so that series can be summed."""


class JobEndSeries:
    """The metrics about the ends and run times of Jobs, registered in `registry`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._ran = Histogram(
            "pyroclast_run_seconds", "From the start of a Job to its end", ["queue"], buckets=SECONDS, registry=registry
        )
        self._ends = Counter("pyroclast_job_ends", "Jobs that ended", ["queue", "state"], registry=registry)

    def ended(self, queue: str, state: str, seconds: float | None) -> None:
        """Count a Job that ended in `state`. `seconds`: its run time, None if its start was not observed."""
        self._ends.labels(queue, state).inc()
        if seconds is not None:
            self._ran.labels(queue).observe(max(0.0, seconds))

    def forget(self, queue: str) -> None:
        """Remove the metrics series of a deleted queue."""
        self._ran.remove_by_labels({"queue": queue})
        self._ends.remove_by_labels({"queue": queue})
