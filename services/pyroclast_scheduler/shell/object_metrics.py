"""Metrics of single queues and jobs, running and waiting, which are removed together with their objects."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final

import msgspec
import numpy as np
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from pyroclast.lifecycle.gang.groups import Group
from pyroclast_scheduler.explaining.book import Waits
from pyroclast_scheduler.model.dimensions import CPU, MEMORY
from pyroclast_scheduler.model.node_columns import Floats
from pyroclast_scheduler.model.tasks import readable_seconds
from pyroclast_scheduler.session.outcome import CardUse, Measures
from pyroclast_scheduler.shell.metrics import SchedulerMetrics

_KEPT_SECONDS: Final = 600.0  # how long an ended series shows 0 before it is removed, so that dashboards see its end
_AMOUNTS: Final = ("allocated", "request", "deserved", "inqueue", "capacity", "real_capacity")
_NUMBERS: Final = ("share", "weight", "overused")
_JOB_LABELS: Final = ("job_name", "queue", "job_namespace")
_SHARE_LABELS: Final = ("job_ns", "job_id")
_OF_JOBS: Final[tuple[tuple[str, str, Callable[[_Job], float | None]], ...]] = (
    ("e2e_job_scheduling_duration", "From a job's creation to its last placement", attrgetter("duration")),
    ("e2e_job_scheduling_start_time", "Creation of the job, seconds since the epoch", attrgetter("start")),
    ("e2e_job_scheduling_last_time", "Last placement, seconds since the epoch", attrgetter("last")),
)


class WaitingSeries:
    """Gauges that `show` updates. Amounts are in cores, bytes and whole devices."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str, *labels: str) -> KeptSeries:
            return KeptSeries(Gauge(f"pyroclast_{name}", text, ("queue", *labels), registry=registry))

        self._jobs = gauge("waiting_jobs", "Waiting Jobs by waiting code", "code")
        self._resources = gauge("waiting_resources", "Resources that the waiting Jobs request", "resource")
        self._oldest = gauge("oldest_waiting_seconds", "Waiting time of the oldest waiting Job")
        self._held = gauge("estimate_held_ratio", "Part of the last estimates of starts that were correct")
        self._width = gauge("estimate_width_seconds", "Median width of the last estimates of starts")
        self._unexamined = gauge(
            "longest_unexamined_seconds", "Longest time that a new or changed Job has not been examined by a session"
        )

    def show_estimates(self, quality: Mapping[str, tuple[float, float]], now: float) -> None:
        """Export by queue the fraction of the last estimates that were right, and the width of their intervals."""
        self._held.show({(queue,): held for queue, (held, _) in quality.items()}, now)
        self._width.show({(queue,): width for queue, (_, width) in quality.items()}, now)

    def show(self, measured: Waits, now: float) -> None:
        """Export the sums that were measured at `now`."""
        self._jobs.show(measured.jobs, now)
        self._resources.show(measured.resources, now)
        self._oldest.show(measured.oldest, now)
        self._unexamined.show(measured.unexamined, now)


class KeptSeries:
    """A gauge whose ended series show 0 for some time before they are removed."""

    def __init__(self, gauge: Gauge) -> None:
        self._gauge = gauge
        self._last: dict[tuple[str, ...], float] = {}

    def show(self, values: Mapping[tuple[str, ...], float], now: float) -> None:
        """Set `values` by labels. Earlier labels that are missing have ended."""
        for labels, value in values.items():
            self._gauge.labels(*labels).set(value)
            self._last[labels] = now
        for labels, at in list(self._last.items()):
            if labels in values:
                continue
            self._gauge.labels(*labels).set(0)
            if now > at + _KEPT_SECONDS:
                self._gauge.remove(*labels)
                del self._last[labels]


class QueueSeries:
    """The amounts and shares of queues: cpu in milli-cores, memory in bytes, pods plain, other resources in thousandths."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, *labels: str) -> Gauge:
            text = f"Of a queue: {name.replace('_', ' ')}"
            return Gauge(f"volcano_queue_{name}", text, ("queue_name", *labels), registry=registry)

        self._basic = {kind: (gauge(f"{kind}_milli_cpu"), gauge(f"{kind}_memory_bytes")) for kind in _AMOUNTS}
        self._scalars = {kind: gauge(f"{kind}_scalar_resources", "resource") for kind in _AMOUNTS}
        self._numbers = {kind: gauge(kind) for kind in _NUMBERS}
        self._last: dict[tuple[str, str], tuple[Sequence[str], tuple[float, ...]]] = {}
        self._series: dict[str, set[tuple[Gauge, tuple[str, ...]]]] = {}

    def take(self, measures: Measures, queues: Collection[str]) -> None:
        """Export the numbers of a session. `queues`: the existing queues."""
        for kind, found in measures.amounts.items():
            for queue, vector in found.items():
                self._amounts(kind, queue, vector, measures.names)
        for kind, numbers in measures.numbers.items():
            for queue, number in numbers.items():
                self._set(self._numbers[kind], number, queue)
        for queue in self._series.keys() - set(queues):
            for gauge, labels in self._series.pop(queue):
                gauge.remove(*labels)
            self._last = {slot: value for slot, value in self._last.items() if slot[1] != queue}

    def _amounts(self, kind: str, queue: str, vector: Floats, names: Sequence[str]) -> None:
        now = tuple(vector.tolist())
        if self._last.get((kind, queue)) == (names, now):
            return
        self._last[kind, queue] = names, now
        for gauge, row in zip(self._basic[kind], (CPU, MEMORY), strict=True):
            self._set(gauge, now[row], queue)
        known = self._series.get(queue, set())
        for row in range(MEMORY + 1, len(now)):
            if now[row] or (self._scalars[kind], (queue, names[row])) in known:
                self._set(self._scalars[kind], now[row], queue, names[row])

    def _set(self, gauge: Gauge, value: float, *labels: str) -> None:
        if np.isfinite(value):
            gauge.labels(*labels).set(value)
            self._series.setdefault(labels[0], set()).add((gauge, labels))


class CardSeries:
    """The metrics of shared GPUs, by node."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"volcano_vgpu_device_{name}", text, ("devID", "NodeName", *labels), registry=registry)

        self._shared = gauge("shared_number", "Pods that share a card")
        self._memory = gauge("allocated_memory", "Memory of a card that is allocated to pods")
        self._cores = gauge("allocated_cores", "Hundredths of the cores of a card that are allocated to pods")
        self._limit = gauge("memory_limit", "Memory of a card")
        self._pod_memory = gauge("memory_allocation_for_a_certain_pod", "Memory of a card that is allocated to a pod", "podName")
        self._pod_cores = gauge(
            "core_allocation_for_a_certain_pod", "Hundredths of the cores of a card that are allocated to a pod", "podName"
        )
        self._series: dict[str, set[tuple[Gauge, tuple[str, ...]]]] = {}

    def take(self, cards: Mapping[str, Sequence[CardUse]], is_known: Callable[[str], bool]) -> None:
        """Export the shared devices of a session by node, and remove the metrics of deleted nodes."""
        for node, found in cards.items():
            now: dict[tuple[Gauge, tuple[str, ...]], float] = {}
            for card in found:
                own = (card.card, node)
                now[self._shared, own] = len(card.pods)
                now[self._memory, own] = sum(memory for _, memory, _ in card.pods)
                now[self._cores, own] = sum(cores for _, _, cores in card.pods)
                now[self._limit, own] = card.memory
                for pod, memory, cores in card.pods:
                    now[self._pod_memory, (*own, pod)] = memory
                    now[self._pod_cores, (*own, pod)] = cores
            self._drop(self._series.get(node, set()) - now.keys())
            for (gauge, labels), value in now.items():
                gauge.labels(*labels).set(value)
            self._series[node] = set(now)
        for node in [node for node in self._series if not is_known(node)]:
            self._drop(self._series.pop(node))

    def _drop(self, series: Collection[tuple[Gauge, tuple[str, ...]]]) -> None:
        for gauge, labels in series:
            gauge.remove(*labels)


class _Job(msgspec.Struct, gc=False):
    """The numbers of one job: times in seconds since the epoch, the duration in milliseconds. None is not exported."""

    labels: tuple[str, str, str]
    start: float
    duration: float | None = None
    last: float | None = None
    share: float | None = None


class JobSeries(Collector):
    """The metrics of jobs, calculated when scraped: gauges of 10,000 jobs need 30 MB, and half of the time of a placement."""

    def __init__(self, metrics: SchedulerMetrics) -> None:
        self._metrics = metrics
        self._jobs: dict[str, _Job] = {}
        metrics.registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of all jobs. Any thread may call this method."""
        jobs = list(self._jobs.values())
        for name, text, value in _OF_JOBS:
            yield _family(name, text, _JOB_LABELS, [(job.labels, value(job)) for job in jobs])
        shares = [((job.labels[2], job.labels[0]), job.share) for job in jobs]
        yield _family("job_share", "Dominant share of a job", _SHARE_LABELS, shares)

    def seen(self, group: Group) -> None:
        """Record that a PodGroup exists."""
        self._job(group)

    def placed(self, group: Group, now: float) -> float:
        """Record that pods of the group were placed. Return the milliseconds since its creation."""
        job = self._job(group)
        job.duration, job.last = max(0.0, now - job.start) * 1000, now
        return job.duration

    def shares(self, shares: Mapping[str, float]) -> None:
        """Set the dominant share of each job. `shares`: by key of the PodGroup."""
        for key, share in shares.items():
            job = self._jobs.get(key)
            if job is not None:
                job.share = share

    def gone(self, keys: Collection[str]) -> None:
        """Remove the metrics of deleted PodGroups."""
        for key in keys:
            job = self._jobs.pop(key, None)
            if job is not None:
                for each in (self._metrics.unready_tasks, self._metrics.retries):
                    each.remove(*key.split("/"))

    def _job(self, group: Group) -> _Job:
        key = group.key
        labels = (key.rpartition("/")[2], group.spec.queue, group.metadata.namespace)
        job = self._jobs.get(key)
        if job is None or job.labels != labels:
            self.gone((key,))
            job = self._jobs[key] = _Job(labels, readable_seconds(group.metadata.creation_timestamp) or 0.0)
        return job


def _family(name: str, text: str, labels: Sequence[str], values: Iterable[tuple[Sequence[str], float | None]]) -> Metric:
    family = GaugeMetricFamily(f"volcano_{name}", text, labels=labels)
    for own, value in values:
        if value is not None:
            family.add_metric(own, value)
    return family
