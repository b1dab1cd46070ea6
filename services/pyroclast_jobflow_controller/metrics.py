"""The metrics of the controllers, under Volcano's names, which dashboards use."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Gauge

from pyroclast.api.enums import FlowPhase


class FlowMetrics:
    """Counters of ended flows.

    The metrics are registered as gauges, because the client library would add `_total` to Volcano's names.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._ended = {
            phase: Gauge(
                f"volcano_jobflow_{phase.lower()}_phase_count",
                f"How often a JobFlow of the namespace has become {phase}",
                ("jobflow_namespace",),
                registry=registry,
            )
            for phase in (FlowPhase.SUCCEED, FlowPhase.FAILED)
        }

    def entered(self, namespace: str, phase: FlowPhase) -> None:
        """Count a flow whose stored phase changed to `phase`."""
        if phase in self._ended:
            self._ended[phase].labels(namespace).inc()
