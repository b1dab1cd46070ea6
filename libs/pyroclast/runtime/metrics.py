"""The metrics of every service: its process, event loop, requests, watches and queues, and the ends of Jobs.

The library appends `_total` to the name of each counter. Dashboards and alerts for Volcano query counters by Volcano's names, so
the names must be exact.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

from pyroclast.kube.basics.observer import Observer

RUN_SECONDS: Final = (10, 60, 600, 3600, 6 * 3600, 86_400)
"""Bounds of the buckets: few, so that a queue has at most 40 series, and equal in all services, so that series can be summed."""


class JobEndSeries:
    """The metrics about the ends and run times of Jobs, registered in `registry`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._ran = Histogram(
            "pyroclast_run_seconds", "From the start of a Job to its end", ["queue"], buckets=RUN_SECONDS, registry=registry
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


CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class ExactCounter(Counter):
    """A counter whose series has exactly the name of the counter."""

    def _child_samples(self) -> Iterable[Sample]:
        return [
            Sample(sample.name.removesuffix("_total"), *sample[1:])
            for sample in super()._child_samples()
            if sample.name == "_total"
        ]


def render(registry: CollectorRegistry) -> bytes:
    """Return all metrics of `registry` in the text format 0.0.4."""
    lines: list[str] = []
    for metric in registry.collect():
        samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
        if samples:
            name = samples[0].name if metric.type == "counter" else metric.name
            lines.append(f"# HELP {name} {_escape(metric.documentation)}")
            lines.append(f"# TYPE {name} {'untyped' if metric.type == 'unknown' else metric.type}")
            lines += map(_line, samples)
    return ("\n".join(lines) + "\n").encode()


def _line(sample: Any) -> str:  # noqa: ANN401 - a named tuple of the library
    labels = ",".join(f'{name}="{_escape(value, quote=True)}"' for name, value in sorted(sample.labels.items()))
    value = floatToGoString(sample.value)  # type: ignore[no-untyped-call]
    return f"{sample.name}{{{labels}}} {value}" if labels else f"{sample.name} {value}"


def _escape(text: str, *, quote: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quote else text


FAST: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


def new_registry() -> CollectorRegistry:
    """Return a registry with the memory, CPU time and open files of this process, without `_created` series of counters."""
    disable_created_metrics()  # type: ignore[no-untyped-call]
    registry = CollectorRegistry(auto_describe=True)
    ProcessCollector(registry=registry)
    return registry


class LoopMetrics:
    """Metrics of the event loop: by how much it is late, and for how much of that time this process itself used the CPU.

    For the rest of that time, the process waited for a core.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._lag = _Longest(registry, "lag", "Delay of the event loop")
        self._held = _Longest(registry, "held", "Part of the delay of the event loop in which this process used the CPU")

    def lag(self, late: float, held: float) -> None:
        """Record that the loop was `late` seconds late, of which the process used the CPU for `held` seconds."""
        self._lag.observe(late)
        self._held.observe(held)


class _Longest:
    """A histogram of seconds, and a gauge of their maximum."""

    def __init__(self, registry: CollectorRegistry, what: str, text: str) -> None:
        self._all = Histogram(f"pyroclast_event_loop_{what}_seconds", text, registry=registry, buckets=FAST)
        self._worst = Gauge(f"pyroclast_event_loop_{what}_max_seconds", f"{text}: the longest so far", registry=registry)
        self._most = 0.0

    def observe(self, seconds: float) -> None:
        self._all.observe(seconds)
        if seconds > self._most:
            self._most = seconds
            self._worst.set(seconds)


class ApiMetrics(Observer):
    """Turns the reports of client, informers and queues into metrics.

    Names and labels are those of client-go, so that existing dashboards work; the label `resource` is an addition.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "rest_client_requests_total", "Requests to the API server", ["method", "resource", "code"], registry=registry
        )
        self._latency = Histogram(
            "rest_client_request_duration_seconds",
            "Duration of requests to the API server, in seconds",
            ["verb"],
            registry=registry,
            buckets=FAST,
        )
        self._known: dict[tuple[str, str, int], tuple[Counter, Histogram | None]] = {}
        self._events = Counter("pyroclast_watch_events_total", "Received watch events", ["resource"], registry=registry)
        self._incidents = Counter(
            "pyroclast_watch_incidents_total",
            "Rare incidents: relists, reconnects, stalls, undecodable objects",
            ["resource", "what"],
            registry=registry,
        )
        self._depth = Gauge("workqueue_depth", "Waiting keys", ["name"], registry=registry)
        self._waited = Histogram(
            "workqueue_queue_duration_seconds", "How long keys waited", ["name"], registry=registry, buckets=FAST
        )
        self._worked = Histogram(
            "workqueue_work_duration_seconds", "How long the work on a key took", ["name"], registry=registry, buckets=FAST
        )
        self._retries = Counter(
            "workqueue_retries_total", "Keys whose work failed and is tried again", ["name"], registry=registry
        )

    def request(self, verb: str, resource: str, status: int, seconds: float) -> None:
        """Count a finished request; `status` is 0 when no response came."""
        count, took = self._known.get((verb, resource, status)) or self._series(verb, resource, status)
        count.inc()
        if took is not None:
            took.observe(seconds)

    def _series(self, verb: str, resource: str, status: int) -> tuple[Counter, Histogram | None]:
        """Return the series of such requests. They are cached, because a lookup takes longer than counting."""
        count = self._requests.labels(verb, resource, str(status) if status else "<error>")
        found = self._known[verb, resource, status] = (count, None if verb == "watch" else self._latency.labels(verb))
        return found

    def events(self, resource: str, count: int) -> None:
        """Count received watch events."""
        self._events.labels(resource).inc(count)

    def incident(self, resource: str, what: str) -> None:
        """Count a rare incident of a watch or of events."""
        self._incidents.labels(resource, what).inc()

    def depth(self, queue: str, waiting: int) -> None:
        """Set the number of waiting keys."""
        self._depth.labels(queue).set(waiting)

    def started(self, queue: str, waited: float) -> None:
        """Record the wait of a key whose work begins."""
        self._waited.labels(queue).observe(waited)

    def finished(self, queue: str, worked: float, failed: bool) -> None:
        """Record the duration of the work on a key, and whether it failed."""
        self._worked.labels(queue).observe(worked)
        if failed:
            self._retries.labels(queue).inc()
