"""The metrics of the controllers, under Volcano's names, which dashboards use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Gauge, Histogram

from pyroclast.api.enums import JobPhase, PodGroupPhase
from pyroclast.api.types import Key

_BUCKETS: Final = tuple(50.0 * (60000.0 / 50.0) ** (step / 29) for step in range(30))


class ControllerMetrics:
    """Counters of ended Jobs, the latency of pods, and the PodGroups of queues.

    The counters are registered as gauges, because the client library would add `_total` to Volcano's names.
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
        """Count a Job whose phase changed to `phase`."""
        if phase in self._ended:
            self._ended[phase].labels(str(job), queue).inc()

    def pod_created(self, milliseconds: float) -> None:
        """Record the time between the creation of a Job and of its pod."""
        self._latency.observe(milliseconds)

    def job_deleted(self, job: Key, queue: str) -> None:
        """Remove the metrics series of a deleted Job."""
        for gauge in self._ended.values():
            gauge.remove_by_labels({"job_name": str(job), "queue_name": queue})

    def groups(self, queue: str, counts: Mapping[PodGroupPhase, int]) -> None:
        """Set the numbers of a queue's PodGroups by phase."""
        for phase, gauge in self._groups.items():
            gauge.labels(queue).set(counts.get(phase, 0))

    def queue_deleted(self, queue: str) -> None:
        """Remove the metrics series of a deleted queue."""
        for gauge in self._groups.values():
            gauge.remove_by_labels({"queue_name": queue})
