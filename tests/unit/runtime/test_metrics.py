from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from pyroclast.runtime import supervisor
from pyroclast.runtime.metrics import ApiMetrics, ExactCounter, LoopMetrics, new_registry, render
from pyroclast.runtime.supervisor import measure_lag


def test_metrics_are_rendered_in_the_prometheus_text_format() -> None:
    registry = CollectorRegistry()
    ExactCounter("volcano_job_completed_phase_count", "Completed\njobs", ["job_name"], registry=registry).labels('a"\\\nb').inc(2)
    Counter("other_total", "Others", registry=registry).inc()
    Gauge("volcano_queue_share", "Share", ["queue"], registry=registry).labels("q").set(0.5)
    Gauge("unused", "No series yet", ["x"], registry=registry)
    Histogram("volcano_latency_milliseconds", "Latency", buckets=(5.0, 10.0), registry=registry).observe(7)
    assert render(registry).decode() == (
        "# HELP volcano_job_completed_phase_count Completed\\njobs\n"
        "# TYPE volcano_job_completed_phase_count counter\n"
        'volcano_job_completed_phase_count{job_name="a\\"\\\\\\nb"} 2.0\n'
        "# HELP other_total Others\n"
        "# TYPE other_total counter\n"
        "other_total 1.0\n"
        "# HELP volcano_queue_share Share\n"
        "# TYPE volcano_queue_share gauge\n"
        'volcano_queue_share{queue="q"} 0.5\n'
        "# HELP volcano_latency_milliseconds Latency\n"
        "# TYPE volcano_latency_milliseconds histogram\n"
        'volcano_latency_milliseconds_bucket{le="5.0"} 0.0\n'
        'volcano_latency_milliseconds_bucket{le="10.0"} 1.0\n'
        'volcano_latency_milliseconds_bucket{le="+Inf"} 1.0\n'
        "volcano_latency_milliseconds_count 1.0\n"
        "volcano_latency_milliseconds_sum 7.0\n"
    )


def test_client_queue_and_loop_observations_become_metrics() -> None:
    registry = new_registry()
    metrics = ApiMetrics(registry)
    metrics.request("create", "pods", 201, 0.01)
    metrics.request("get", "pods", 0, 0.01)
    metrics.request("watch", "pods", 200, 100.0)
    metrics.events("pods", 5)
    metrics.incident("pods", "relist")
    metrics.depth("jobs", 3)
    metrics.started("jobs", 0.1)
    metrics.finished("jobs", 0.2, True)
    metrics.finished("jobs", 0.2, False)
    LoopMetrics(registry).lag(0.3, 0.1)
    text = render(registry).decode()
    for line in (
        'rest_client_requests_total{code="201",method="create",resource="pods"} 1.0',
        'rest_client_requests_total{code="<error>",method="get",resource="pods"} 1.0',
        'rest_client_request_duration_seconds_count{verb="create"} 1.0',
        'pyroclast_watch_events_total{resource="pods"} 5.0',
        'pyroclast_watch_incidents_total{resource="pods",what="relist"} 1.0',
        'workqueue_depth{name="jobs"} 3.0',
        'workqueue_queue_duration_seconds_count{name="jobs"} 1.0',
        'workqueue_work_duration_seconds_count{name="jobs"} 2.0',
        'workqueue_retries_total{name="jobs"} 1.0',
        "pyroclast_event_loop_lag_max_seconds 0.3",
        "pyroclast_event_loop_held_max_seconds 0.1",
    ):
        assert line in text.splitlines()
    assert 'verb="watch"' not in text
    assert "process_resident_memory_bytes " in text
    assert "process_cpu_seconds_total " in text


@pytest.mark.looptime
async def test_an_idle_event_loop_has_no_lag() -> None:
    seen: list[tuple[float, float]] = []
    measuring = asyncio.ensure_future(measure_lag(lambda *times: seen.append(times)))
    await asyncio.sleep(2.01)
    measuring.cancel()
    assert len(seen) == 100
    assert max(seen) < (0.01, 0.01)


def work() -> None:
    until = time.process_time() + 0.5
    while time.process_time() < until:
        pass


@pytest.mark.parametrize(("holds", "is_at_work"), [(work, True), (lambda: time.sleep(0.5), False)])
async def test_a_blocked_event_loop_reports_its_lag_and_whether_the_process_was_busy(
    holds: Callable[[], None], is_at_work: bool
) -> None:
    """By the work of this process, or as if others had the core."""
    seen: list[tuple[float, float]] = []
    measuring = asyncio.ensure_future(measure_lag(lambda *times: seen.append(times)))
    await asyncio.sleep(0)
    holds()
    await asyncio.sleep(0.01)
    measuring.cancel()
    (late, held), *_ = seen
    assert late > 0.4
    assert (held > 0.4) == is_at_work


def test_freeze_loaded_exempts_objects_from_collection_and_runs_no_collection() -> None:
    import gc

    class Loaded:
        """Part of a cycle, which only a collection could free."""

        def __init__(self) -> None:
            self.itself = self

    loaded = Loaded()
    is_alive = weakref.ref(loaded)
    try:
        looked: list[str] = []
        gc.callbacks.append(lambda phase, _info: looked.append(phase))
        supervisor.freeze_loaded()
        assert looked == [], "whoever looks through all that was loaded holds the loop"
        del loaded
        gc.collect()
        assert is_alive() is not None
    finally:
        gc.callbacks.pop()
        gc.unfreeze()
