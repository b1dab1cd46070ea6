"""The metrics of the board: its own work, the waiting Jobs by code, and waits, run times and ends of Jobs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from prometheus_client import CollectorRegistry, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from pyroclast.api.enums import JobPhase
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast.runtime.metrics import RUN_SECONDS, JobEndSeries
from pyroclast.views.readable import amount
from pyroclast_board.cluster.cluster import Cluster
from pyroclast_board.cluster.jobs import JobRow
from pyroclast_board.cluster.records import ShownObject

RUNNING: Final = str(JobPhase.RUNNING)


class WaitingJobs(Collector):
    """Metrics that are computed from the rows of the pages whenever the metrics are collected."""

    def __init__(self, registry: CollectorRegistry, cluster: Cluster) -> None:
        self._cluster = cluster
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Return the metrics without values."""
        return _families().values()

    def collect(self) -> Iterable[Metric]:
        """Return the metrics. The method runs in another thread, so it copies all data before use."""
        now = self._cluster.now()
        families = _families()
        jobs: Counter[tuple[str, str]] = Counter()
        never: Counter[str] = Counter()
        asked: dict[tuple[str, str], float] = defaultdict(float)
        oldest: dict[str, float] = defaultdict(float)
        unexamined: dict[str, float] = defaultdict(float)
        crashing: Counter[str] = Counter()
        held_back = set(self._cluster.crashing.jobs)
        for row in list(self._cluster.table.rows):
            crashing[row.queue] += row.uid in held_back and row.phase == RUNNING
            if not row.is_waiting:
                continue
            age = max(0.0, now - _seconds(row.created, now))
            jobs[row.queue, row.code] += 1
            never[row.queue] += row.is_final
            oldest[row.queue] = max(oldest[row.queue], age)
            unexamined[row.queue] = max(unexamined[row.queue], age if row.code == PendingReason.NOT_EXAMINED else 0.0)
            for resource, value in row.asks.items():
                asked[row.queue, resource] += float(amount(value))
        for labels, count in jobs.items():
            families["jobs"].add_metric(labels, count)
        for labels, total in asked.items():
            families["resources"].add_metric(labels, total)
        for queue in list(self._cluster.queues.values()):
            name = queue.metadata.name
            families["never"].add_metric((name,), never[name])
            families["crashing"].add_metric((name,), crashing[name])
            families["oldest"].add_metric((name,), oldest[name])
            families["unexamined"].add_metric((name,), unexamined[name])
            families["below"].add_metric((name,), is_below_guarantee(queue))
        for lease, held in dict(self._cluster.services or {}).items():
            families["leases"].add_metric((lease,), held)
        for each in self._cluster.health:
            if each["state"] != "unknown":
                families["problem"].add_metric((each["check"],), each["state"] == "wrong")
        return families.values()


class JobEnds:
    """Counts how long Jobs waited and ran, and how they ended, of changes since the start of the process.

    The recorder counts the ends of native PodGroups, because the board does not watch pods that have ended.
    """

    def __init__(self, registry: CollectorRegistry, cluster: Cluster) -> None:
        self._now = cluster.now
        self._waited = Histogram(
            "pyroclast_wait_seconds", "From the creation of a Job to its start", ["queue"], buckets=RUN_SECONDS, registry=registry
        )
        self._ends = JobEndSeries(registry)
        self._started: dict[str, float] = {}
        cluster.table.on_row(self.changed)
        cluster.queues.on_change(self._queue_changed)

    def changed(self, old: JobRow | None, new: JobRow | None) -> None:
        """Handle a changed row of a Job. `new` is None for a deleted Job."""
        if new is None or old is None:
            if old is not None:
                self._started.pop(old.uid, None)
            return
        if old.is_waiting and not new.is_waiting and not new.has_ended:
            self._started[new.uid] = _seconds(new.changed, self._now())
            self._waited.labels(new.queue).observe(max(0.0, self._started[new.uid] - _seconds(new.created, self._now())))
        if new.has_ended and not old.has_ended:
            started = self._started.pop(new.uid, None)
            seconds = None if started is None else _seconds(new.changed, self._now()) - started
            self._ends.ended(new.queue, new.phase, seconds)

    def _queue_changed(self, old: ShownObject | None, new: ShownObject | None) -> None:
        """Remove the metrics series of a deleted queue."""
        if new is not None or old is None:
            return
        self._waited.remove_by_labels({"queue": old.metadata.name})
        self._ends.forget(old.metadata.name)


def is_below_guarantee(queue: ShownObject) -> bool:
    """Whether the allocation of a queue is below its guarantee in any resource."""
    guarantee = (queue.spec.get("guarantee") or {}).get("resource") or {}
    allocated = queue.status.get("allocated") or {}
    return any(amount(allocated.get(name, 0)) < amount(value) for name, value in guarantee.items())


def _families() -> dict[str, GaugeMetricFamily]:
    gauges = {
        "jobs": ("pyroclast_waiting_jobs", "Jobs that wait, by why", ("queue", "code")),
        "resources": ("pyroclast_waiting_resources", "What Jobs that wait ask for", ("queue", "resource")),
        "never": ("pyroclast_never_fitting_jobs", "Jobs that waiting alone does not help", ("queue",)),
        "crashing": ("pyroclast_crashing_jobs", "Running Jobs whose containers end and are started again", ("queue",)),
        "oldest": ("pyroclast_oldest_waiting_seconds", "How long the oldest Job waits", ("queue",)),
        "unexamined": ("pyroclast_longest_unexamined_seconds", "How long the scheduler has not looked at a Job", ("queue",)),
        "below": ("pyroclast_queue_below_guarantee", "1 while a queue has less than it is guaranteed", ("queue",)),
        "problem": ("pyroclast_problem", "1 while a check of the health of the services finds a problem", ("check",)),
        "leases": ("pyroclast_lease_held", "1 while somebody leads by a Lease of the services", ("lease",)),
    }
    return {key: GaugeMetricFamily(name, text, labels=labels) for key, (name, text, labels) in gauges.items()}


def _seconds(text: str, now: float) -> float:
    return datetime.fromisoformat(text).timestamp() if text else now


class BoardMetrics:
    """Counts requests and streams. The metrics are registered in `registry`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._streams = Gauge("pyroclast_board_streams", "Pages that are followed live", ["page"], registry=registry)
        self._requests = Histogram(
            "pyroclast_board_request_seconds",
            "From a request to its answer",
            ["page"],
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1, 2, 5),
            registry=registry,
        )

    def stream(self, page: str, change: int) -> None:
        """Count the start (1) or the end (-1) of a stream."""
        self._streams.labels(page).inc(change)

    def answered(self, page: str, seconds: float) -> None:
        """Record that one request for `page` was answered in `seconds`."""
        self._requests.labels(page).observe(seconds)
