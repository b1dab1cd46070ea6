"""The metrics of the scheduler, with the names, labels and buckets of Volcano."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from pyroclast.api import records
from pyroclast.runtime.metrics import ExactCounter
from pyroclast_scheduler.model.tasks import readable_seconds


def _buckets(low: float, high: float, count: int) -> tuple[float, ...]:
    return tuple(low * (high / low) ** (i / (count - 1)) for i in range(count))


_CYCLE: Final = _buckets(1, 5000, 20)
_JOB: Final = _buckets(100, 120000, 30)
_PLUGIN: Final = _buckets(0.1, 100, 15)
_ACTION: Final = _buckets(1, 2000, 20)
_TASK: Final = _buckets(50, 60000, 30)
_STAGE: Final = _buckets(0.1, 500, 20)


class SchedulerMetrics:
    """All metrics of the scheduler. Durations are in milliseconds."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self._opening = 0.0

        def histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(f"volcano_{name}", text, labels, buckets=buckets, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"volcano_{name}", text, labels, registry=registry)

        self.cycle = histogram("e2e_scheduling_latency_milliseconds", "Duration of a cycle", _CYCLE)
        self.open_session = histogram(
            "open_session_duration_milliseconds", "Duration of the snapshot and of opening the plugins", _CYCLE
        )
        self.job_latency = histogram(
            "e2e_job_scheduling_latency_milliseconds", "Time from the creation of a job to its placements", _JOB
        )
        self.plugin = histogram(
            "plugin_scheduling_latency_milliseconds", "Duration of opening or closing a plugin", _PLUGIN, "plugin", "OnSession"
        )
        self.action = histogram("action_scheduling_latency_milliseconds", "Duration of an action", _ACTION, "action")
        self.task = histogram(
            "task_scheduling_latency_milliseconds", "Time from the creation of a pod to a stage", _TASK, "stage"
        )
        self._watched = self.task.labels("Watched")
        self.stage = histogram("scheduling_stage_duration_milliseconds", "Duration of a stage", _STAGE, "stage")
        self.victims = gauge("pod_preemption_victims", "Victims of the last preemption")
        self.preemptions = ExactCounter(
            "volcano_total_preemption_attempts", "Nodes on which evictions would have freed enough room", registry=registry
        )
        self.evictions = Counter(
            "volcano_eviction_transactions_total", "Committed statements with evictions", ("action",), registry=registry
        )
        self.evicted_pods = Counter(
            "pyroclast_evictions_total", "Pods that the scheduler evicted", ("action",), registry=registry
        )
        self.unready_tasks = gauge("unschedule_task_count", "Tasks that a job still needs to be ready", "job_ns", "job_id")
        self.unready_jobs = gauge("unschedule_job_count", "Jobs that are not ready")
        self.retries = ExactCounter(
            "volcano_job_retry_counts", "Cycles in which a job was not ready", ("job_ns", "job_id"), registry=registry
        )
        self.attempts = Counter("volcano_schedule_attempts_total", "Attempts to place a pod", ("result",), registry=registry)
        self.refusals = Counter(
            "pyroclast_bind_refusals_total", "Binds that the API server refused", ("reason",), registry=registry
        )
        self.failures = Counter("pyroclast_cycle_failures_total", "Cycles that ended with an error", registry=registry)
        self.problems = Gauge(
            "pyroclast_objects_left_out",
            "Objects with invalid fields, which are ignored wholly or in part",
            ("kind",),
            registry=registry,
        )
        self.reserved_nodes = Gauge("pyroclast_reservation_nodes", "Nodes reserved for a job", ("job",), registry=registry)
        self.reserved_seconds = Gauge(
            "pyroclast_reservation_seconds", "Time for which nodes have been reserved for a job", ("job",), registry=registry
        )
        self.refused_configurations = Counter(
            "pyroclast_configuration_refusals_total", "Configuration files that were unusable", registry=registry
        )
        self.warnings = Counter(
            "pyroclast_configuration_warnings_total", "Parts of configurations that were ignored", registry=registry
        )

    def observe(self, name: str, point: str, run: Callable[[], Any]) -> Any:  # noqa: ANN401 - what `run` returns
        """Run and measure the opening or closing of a plugin, a stage, or an action. Called from the thread of the session."""
        start = time.perf_counter()
        try:
            return run()
        finally:
            milliseconds = (time.perf_counter() - start) * 1000
            if point == "stage":
                self.stage.labels(name).observe(milliseconds)
            elif point == "action":
                self.action.labels(name).observe(milliseconds)
            else:
                self.plugin.labels(name, point).observe(milliseconds)
                self._opening += milliseconds if point == "OnSessionOpen" else 0.0

    def opened(self, milliseconds: float) -> None:
        """Record that a session is finished, whose snapshot took so many milliseconds, to which opening plugins is added."""
        self.open_session.observe(milliseconds + self._opening)
        self._opening = 0.0

    def watched(self, old: records.Pod | None, new: records.Pod | None) -> None:
        """Record that a pod was created, changed or deleted."""
        if old is None and new is not None and not new.spec.node_name:
            created = readable_seconds(new.metadata.creation_timestamp)
            if created is not None:
                self._watched.observe(max(0.0, time.time() - created) * 1000)
