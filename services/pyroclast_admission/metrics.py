"""Metrics of the webhooks."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram

BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 1.0)


class ReviewMetrics:
    """Counts reviews by webhook and outcome (`allowed`, `denied`, `bad`, `shed`), and measures the seconds until an answer."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._reviews = Counter(
            "pyroclast_admission_reviews_total", "Reviews answered", ["webhook", "outcome"], registry=registry
        )
        self._seconds = Histogram(
            "pyroclast_admission_review_duration_seconds",
            "How long answers took",
            ["webhook"],
            registry=registry,
            buckets=BUCKETS,
        )
        self._counters: dict[tuple[str, str], Counter] = {}
        self._histograms: dict[str, Histogram] = {}

    def count(self, webhook: str, outcome: str) -> None:
        """Count one review by `webhook` with this outcome."""
        counter = self._counters.get((webhook, outcome))
        if counter is None:
            counter = self._counters[webhook, outcome] = self._reviews.labels(webhook, outcome)
        counter.inc()

    def took(self, webhook: str, seconds: float) -> None:
        """Record that one review by `webhook` took `seconds`."""
        histogram = self._histograms.get(webhook)
        if histogram is None:
            histogram = self._histograms[webhook] = self._seconds.labels(webhook)
        histogram.observe(seconds)
