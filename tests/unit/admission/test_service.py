"""What the service knows beside the objects: its settings, the version of the API server, time zones, and its metrics."""

from __future__ import annotations

import zoneinfo
from importlib import metadata

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from pyroclast.api.jobplugins import BUILT_IN, ENTRY_POINTS
from pyroclast.runtime.metrics import render
from pyroclast.runtime.time_zones import TimeZones
from pyroclast_admission import service
from pyroclast_admission.engine import BUCKETS, ReviewMetrics
from pyroclast_admission.settings import AdmissionSettings
from tests.unit.kube.fault_server import FaultServer, answer, status


def test_job_plugins_are_the_built_in_configured_and_installed_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = [metadata.EntryPoint("stamp", "somewhere:Stamp", ENTRY_POINTS)]
    monkeypatch.setattr(metadata, "entry_points", lambda group: installed if group == ENTRY_POINTS else [])
    given = AdmissionSettings(webhook_url="https://here", job_plugins="audit, trace")
    assert given.options().jobs.plugins == (*BUILT_IN, "audit", "trace", "stamp")


@pytest.mark.parametrize(
    ("version", "has_them"),
    [
        ({"major": "1", "minor": "33"}, False),
        ({"major": "1", "minor": "34"}, True),
        ({"major": "1", "minor": "33+"}, False),
        ({"major": "1", "minor": "35+"}, True),
        ({}, True),
        ({"minor": 34}, True),
        ([], True),
        (b"\xff", True),
    ],
)
async def test_pod_level_resources_are_assumed_unless_kubernetes_is_older_than_1_34(version: object, has_them: bool) -> None:
    async with FaultServer() as server, server.client() as client:
        server.on("GET /version", answer(200, version))
        assert await service.known_pod_resources(client) is has_them


async def test_the_kubernetes_version_is_requested_until_the_api_server_returns_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """An API server that is away while the service starts does not end it."""
    monkeypatch.setattr(service, "RETRY_SECONDS", 0.001)
    async with FaultServer() as server, server.client() as client:
        server.on("GET /version", status(403, "Forbidden"), status(429, "TooManyRequests"), answer(200, {"minor": "30"}))
        assert await service.known_pod_resources(client) is False


def test_every_available_time_zone_is_known() -> None:
    zones = TimeZones()
    assert [name for name in zoneinfo.available_timezones() if name not in zones] == []


@pytest.mark.parametrize(
    "name", ["", "Mars/Base", "America", "/etc/localtime", "../UTC", "posix/UTC", "zone.tab", "a" * 5000, "UTC\0", "UTC/x", "é"]
)
def test_invalid_time_zone_names_are_not_known(name: str) -> None:
    assert name not in TimeZones()


def test_a_number_is_not_a_known_time_zone() -> None:
    assert 7 not in TimeZones()


def test_admission_metrics_render_like_prometheus_client_metrics() -> None:
    ours, library = CollectorRegistry(auto_describe=True), CollectorRegistry(auto_describe=True)
    metrics = ReviewMetrics(ours)
    reviews = Counter("pyroclast_admission_reviews_total", "Reviews answered", ["webhook", "outcome"], registry=library)
    name = "pyroclast_admission_review_duration_seconds"
    durations = Histogram(name, "How long answers took", ["webhook"], registry=library, buckets=BUCKETS)
    Gauge("pyroclast_admission_webhooks_missing", metrics.missing._documentation, registry=library)
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
