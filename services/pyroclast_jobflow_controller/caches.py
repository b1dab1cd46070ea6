"""What all controllers of the process share: metrics, and informers whose caches contain the answers to our own writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client import CollectorRegistry, Gauge

from pyroclast.api.enums import FlowPhase
from pyroclast.api.records import Job, JobFlow, JobTemplate
from pyroclast.api.types import JOB_FLOWS, JOB_TEMPLATES, JOBS
from pyroclast.kube.http.client import Client
from pyroclast.kube.watch.informer import Informer
from pyroclast.kube.watch.own_writes import GROUP, Recent
from pyroclast.lifecycle.flow.jobs import flows_of, template_of
from pyroclast.runtime.controllers import ControllerContext


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


TEMPLATE: Final = "template"
"""Name of the index of flows and Jobs by the templates that they use, as `namespace/name`."""


class Caches:
    """The informers of all controllers of this process. `clock` returns seconds from an arbitrary origin."""

    def __init__(self, client: Client, clock: Callable[[], float]) -> None:
        self.flows = Recent(Informer(client, JOB_FLOWS, JobFlow, indexers={TEMPLATE: _templates_of_flow}), clock)
        self.templates: Informer[JobTemplate] = Informer(client, JOB_TEMPLATES, JobTemplate)
        self.jobs = Recent(
            Informer(client, JOBS, Job, indexers={GROUP: _flows_of_job, TEMPLATE: _template_of_job}), clock, _flows_of_job
        )
        self.informers: list[Informer[Any]] = [self.flows.informer, self.templates, self.jobs.informer]

    def watch(self, informer: Informer[Any]) -> None:
        """Run `informer` too. For an informer that only some settings need."""
        self.informers.append(informer)


def _templates_of_flow(flow: JobFlow) -> Iterable[str]:
    return {f"{flow.metadata.namespace}/{entry.name}" for entry in flow.spec.flows}


def _flows_of_job(job: Job) -> Iterable[str]:
    return [str(key) for key in flows_of(job)]


def _template_of_job(job: Job) -> Iterable[str]:
    template = template_of(job)
    return (str(template),) if template is not None else ()


@dataclass(frozen=True, slots=True)
class Shared(ControllerContext):
    """The shared objects of the jobflow controller, with its caches and metrics."""

    caches: Caches
    metrics: FlowMetrics
