"""Metrics of the webhooks."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

__all__ = ["ReviewMetrics"]

BUCKETS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 1.0)

_BOUNDS: Final = (*map(str, BUCKETS), "+Inf")


class _Times:
    """How many answers fell into each bucket, and the seconds that all of them took."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * len(_BOUNDS)
        self.total = 0.0


class ReviewMetrics(Collector):
    """Counts reviews by webhook and outcome (`allowed`, `denied`, `bad`, `shed`), and the seconds that answers take.

    These are plain numbers, made into metrics when somebody asks: to count in the library's own, which lock, takes five
    times as long. Only the thread of the event loop may count.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._reviews: dict[tuple[str, str], int] = {}
        self._times: dict[str, _Times] = {}
        registry.register(self)

    def count(self, webhook: str, outcome: str) -> None:
        """One review was answered."""
        key = webhook, outcome
        self._reviews[key] = self._reviews.get(key, 0) + 1

    def took(self, webhook: str, seconds: float) -> None:
        """An answer took so long."""
        times = self._times.get(webhook)
        if times is None:
            times = self._times[webhook] = _Times()
        times.counts[bisect_left(BUCKETS, seconds)] += 1
        times.total += seconds

    def collect(self) -> Iterator[Metric]:
        """The metrics as they stand."""
        reviews = CounterMetricFamily("pyroclast_admission_reviews", "Reviews answered", labels=["webhook", "outcome"])
        for labels, count in self._reviews.items():
            reviews.add_metric(labels, count)
        yield reviews
        durations = HistogramMetricFamily(
            "pyroclast_admission_review_duration_seconds", "How long answers took", labels=["webhook"]
        )
        for webhook, times in self._times.items():
            durations.add_metric([webhook], list(zip(_BOUNDS, accumulate(times.counts), strict=True)), times.total)
        yield durations
