"""Series that describe queues and jobs: set while these are there, and removed with them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import numpy as np
from prometheus_client import CollectorRegistry, Gauge

from pyroclast.api import records
from pyroclast.api.types import Key
from pyroclast_scheduler.model.columns import Floats
from pyroclast_scheduler.model.dimensions import CPU, MEMORY
from pyroclast_scheduler.model.tasks import seconds_of
from pyroclast_scheduler.session.measures import CardUse, Measures
from pyroclast_scheduler.shell.metrics import SchedulerMetrics

__all__ = ["CardSeries", "JobSeries", "QueueSeries"]

_AMOUNTS: Final = ("allocated", "request", "deserved", "inqueue", "capacity", "real_capacity")
_NUMBERS: Final = ("share", "weight", "overused")


class QueueSeries:
    """What queues have and deserve: cpu in milli-cores, memory in bytes, others in thousandths and pods plain."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, *labels: str) -> Gauge:
            text = f"Of a queue: {name.replace('_', ' ')}"
            return Gauge(f"volcano_queue_{name}", text, ("queue_name", *labels), registry=registry)

        self._basic = {kind: (gauge(f"{kind}_milli_cpu"), gauge(f"{kind}_memory_bytes")) for kind in _AMOUNTS}
        self._scalars = {kind: gauge(f"{kind}_scalar_resources", "resource") for kind in _AMOUNTS}
        self._numbers = {kind: gauge(kind) for kind in _NUMBERS}
        self._last: dict[tuple[str, str], tuple[float, ...]] = {}
        self._series: dict[str, set[tuple[Gauge, tuple[str, ...]]]] = {}

    def take(self, measures: Measures, names: Sequence[str], queues: Collection[str]) -> None:
        """Show what a session measured; `names`: of the dimensions, `queues`: those that there are."""
        for kind, found in measures.amounts.items():
            for queue, vector in found.items():
                self._amounts(kind, queue, vector, names)
        for kind, numbers in measures.numbers.items():
            for queue, number in numbers.items():
                self._set(self._numbers[kind], number, queue)
        for queue in self._series.keys() - set(queues):
            for gauge, labels in self._series.pop(queue):
                gauge.remove(*labels)
            self._last = {slot: value for slot, value in self._last.items() if slot[1] != queue}

    def _amounts(self, kind: str, queue: str, vector: Floats, names: Sequence[str]) -> None:
        now = tuple(vector.tolist())
        if self._last.get((kind, queue)) == now:
            return
        self._last[kind, queue] = now
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
    """Cards of GPUs that pods share, by node."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"volcano_vgpu_device_{name}", text, ("devID", "NodeName", *labels), registry=registry)

        self._shared = gauge("shared_number", "Pods that share a card")
        self._memory = gauge("allocated_memory", "Memory of a card that pods have")
        self._cores = gauge("allocated_cores", "Hundredths of the cores of a card that pods have")
        self._limit = gauge("memory_limit", "Memory of a card")
        self._pod_memory = gauge("memory_allocation_for_a_certain_pod", "Memory of a card that a pod has", "podName")
        self._pod_cores = gauge("core_allocation_for_a_certain_pod", "Hundredths of the cores that a pod has", "podName")
        self._series: dict[str, set[tuple[Gauge, tuple[str, ...]]]] = {}

    def take(self, cards: Mapping[str, Sequence[CardUse]], is_known: Callable[[str], bool]) -> None:
        """Show what a session measured, by node; of nodes that are gone nothing."""
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


class JobSeries:
    """What is told of single jobs."""

    def __init__(self, metrics: SchedulerMetrics) -> None:
        self._metrics = metrics
        self._labels: dict[str, tuple[str, str, str]] = {}

    def seen(self, group: records.PodGroup) -> None:
        """A PodGroup is there."""
        key = str(group.key)
        labels = (group.metadata.name, group.spec.queue, group.metadata.namespace)
        if self._labels.get(key) == labels:
            return
        self.gone((key,))
        self._labels[key] = labels
        self._metrics.job_start.labels(*labels).set(seconds_of(group.metadata.creation_timestamp))

    def placed(self, group: records.PodGroup, count: int, now: float) -> None:
        """So many of its pods were placed at `now`, in seconds since the epoch."""
        self.seen(group)
        labels = self._labels[str(group.key)]
        milliseconds = max(0.0, now - seconds_of(group.metadata.creation_timestamp)) * 1000
        for _ in range(count):
            self._metrics.job_latency.observe(milliseconds)
        self._metrics.job_duration.labels(*labels).set(milliseconds)
        self._metrics.job_last.labels(*labels).set(now)

    def shares(self, shares: Mapping[str, float]) -> None:
        """Dominant shares by job."""
        for key, share in shares.items():
            if key in self._labels:
                name = Key.parse(key)
                self._metrics.job_share.labels(name.namespace, name.name).set(share)

    def gone(self, keys: Collection[str]) -> None:
        """These PodGroups are no longer there: nor is anything that was told of them."""
        for key in keys:
            labels = self._labels.pop(key, None)
            if labels is None:
                continue
            name, _, namespace = labels
            metrics = self._metrics
            for gauge in (metrics.job_start, metrics.job_duration, metrics.job_last):
                gauge.remove(*labels)
            metrics.job_share.remove(namespace, name)
            for each in (metrics.unready_tasks, metrics.retries):
                each.remove(name)
