"""The metrics of the controllers, under the names that dashboards know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Gauge, Histogram

from pyroclast.api.enums import JobPhase, PodGroupPhase
from pyroclast.api.types import Key

__all__ = ["ControllerMetrics"]

_BUCKETS: Final = tuple(50.0 * (60000.0 / 50.0) ** (step / 29) for step in range(30))


class ControllerMetrics:
    """Counters of ended Jobs, latency of pods, PodGroups of queues.

    The counters are gauges to the library, which would add `_total` to the names that are known.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._ended = {
            phase: Gauge(
                f"volcano_job_{phase.lower()}_phase_count",
                f"How often the Job has become {phase}",
                ("job_name", "queue_name"),
                registry=registry,
            )
            for phase in (JobPhase.COMPLETED, JobPhase.FAILED)
        }
        self._latency = Histogram(
            "volcano_controller_job_to_pod_creation_latency_milliseconds",
            "From the creation of a Job to that of its pod",
            buckets=_BUCKETS,
            registry=registry,
        )
        self._groups = {
            phase: Gauge(
                f"volcano_queue_pod_group_{phase.lower()}_count",
                f"PodGroups of the queue in phase {phase}",
                ("queue_name",),
                registry=registry,
            )
            for phase in PodGroupPhase
        }

    def entered(self, job: Key, queue: str, phase: JobPhase) -> None:
        """A Job came into a phase."""
        if phase in self._ended:
            self._ended[phase].labels(str(job), queue).inc()

    def pod_created(self, milliseconds: float) -> None:
        """A pod was created so long after its Job."""
        self._latency.observe(milliseconds)

    def job_deleted(self, job: Key, queue: str) -> None:
        """Forget the series of a Job."""
        for gauge in self._ended.values():
            gauge.remove_by_labels({"job_name": str(job), "queue_name": queue})

    def groups(self, queue: str, counts: Mapping[PodGroupPhase, int]) -> None:
        """The PodGroups of a queue were counted."""
        for phase, gauge in self._groups.items():
            gauge.labels(queue).set(counts.get(phase, 0))

    def queue_deleted(self, queue: str) -> None:
        """Forget the series of a queue."""
        for gauge in self._groups.values():
            gauge.remove_by_labels({"queue_name": queue})
