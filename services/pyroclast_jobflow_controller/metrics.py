"""The metrics of the controllers, under the names that dashboards know."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Gauge

from pyroclast.api.enums import FlowPhase

__all__ = ["FlowMetrics"]


class FlowMetrics:
    """Counters of ended flows. They are gauges to the library, which would add `_total` to the names that are known."""

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
        """A flow came into a phase, which was stored."""
        if phase in self._ended:
            self._ended[phase].labels(namespace).inc()
