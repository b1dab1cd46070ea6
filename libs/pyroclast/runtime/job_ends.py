"""How long Jobs ran and how they ended, as metrics per queue: several services see ends, each those of other objects."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

__all__ = ["SECONDS", "JobEndSeries"]

SECONDS: Final = (10, 60, 600, 3600, 6 * 3600, 86_400)
"""Bounds of the buckets. Few, so that a queue has at most 40 series; the same everywhere, so that they can be added up."""


class JobEndSeries:
    """Registers its metrics in `registry`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._ran = Histogram(
            "pyroclast_run_seconds", "From the start of a Job to its end", ["queue"], buckets=SECONDS, registry=registry
        )
        self._ends = Counter("pyroclast_job_ends", "Jobs that ended", ["queue", "state"], registry=registry)

    def ended(self, queue: str, state: str, seconds: float | None) -> None:
        """A Job ended in a state after so many seconds; None where nobody saw it start."""
        self._ends.labels(queue, state).inc()
        if seconds is not None:
            self._ran.labels(queue).observe(max(0.0, seconds))

    def forget(self, queue: str) -> None:
        """A queue was deleted."""
        self._ran.remove_by_labels({"queue": queue})
        self._ends.remove_by_labels({"queue": queue})
