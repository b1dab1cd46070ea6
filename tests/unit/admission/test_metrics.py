"""The metrics of the webhooks: their names, labels and buckets."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram

from pyroclast.runtime.metrics import render
from pyroclast_admission.engine import BUCKETS, ReviewMetrics


def test_admission_metrics_render_like_prometheus_client_metrics() -> None:
    ours, library = CollectorRegistry(auto_describe=True), CollectorRegistry(auto_describe=True)
    metrics = ReviewMetrics(ours)
    reviews = Counter("pyroclast_admission_reviews_total", "Reviews answered", ["webhook", "outcome"], registry=library)
    name = "pyroclast_admission_review_duration_seconds"
    durations = Histogram(name, "How long answers took", ["webhook"], registry=library, buckets=BUCKETS)
    assert render(ours) == render(library)
    for webhook, outcome, seconds in (
        ("/jobs/validate", "allowed", 0.0001),
        ("/jobs/validate", "allowed", 0.0002),
        ("/jobs/mutate", "bad", 0.0),
        ("/jobs/validate", "denied", 5.0),
        ("/jobs/validate", "denied", 1.0),
    ):
        metrics.count(webhook, outcome)
        metrics.took(webhook, seconds)
        reviews.labels(webhook, outcome).inc()
        durations.labels(webhook).observe(seconds)
    assert render(ours) == render(library)
