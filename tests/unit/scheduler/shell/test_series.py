"""Series that describe queues and jobs end with them, and have the original's names and units."""

import numpy as np
from prometheus_client import CollectorRegistry, generate_latest

from pyroclast.lifecycle.gang.groups import volcano_group
from pyroclast_scheduler.model.tasks import seconds_of
from pyroclast_scheduler.session.outcome import Measures
from pyroclast_scheduler.shell.metrics import SchedulerMetrics
from pyroclast_scheduler.shell.object_metrics import JobSeries, QueueSeries
from tests.scenarios import objects
from tests.unit.scheduler.session.test_causes import decide

NAMES = ["cpu", "memory", "pods", "nvidia.com/gpu"]


def shown(registry):
    lines = generate_latest(registry).decode().splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}


def test_queue_metrics_use_the_units_of_volcano_and_are_removed_with_the_queue():
    registry = CollectorRegistry()
    series = QueueSeries(registry)
    vector = np.array([1500.0, 2.0**30, 3.0, 2000.0])
    measures = Measures(
        NAMES, {"allocated": {"q": vector}, "real_capacity": {"q": np.array([np.inf, 1.0, 0, 0])}}, {"share": {"q": 0.5}}
    )
    series.take(measures, ["q"])
    assert shown(registry) == {
        'volcano_queue_allocated_milli_cpu{queue_name="q"}': 1500,
        'volcano_queue_allocated_memory_bytes{queue_name="q"}': 2**30,
        'volcano_queue_allocated_scalar_resources{queue_name="q",resource="pods"}': 3,
        'volcano_queue_allocated_scalar_resources{queue_name="q",resource="nvidia.com/gpu"}': 2000,
        'volcano_queue_real_capacity_memory_bytes{queue_name="q"}': 1,
        'volcano_queue_share{queue_name="q"}': 0.5,
    }
    series.take(Measures(NAMES, {"allocated": {"q": np.zeros(4)}}), ["q"])
    assert shown(registry)['volcano_queue_allocated_scalar_resources{queue_name="q",resource="nvidia.com/gpu"}'] == 0
    series.take(Measures(), ["other"])
    assert shown(registry) == {}


def test_job_metrics_are_removed_when_the_job_is_deleted():
    registry = CollectorRegistry()
    metrics = SchedulerMetrics(registry)
    series = JobSeries(metrics)
    group = volcano_group(objects.pod_group(["j", "q", 1]))
    before = shown(registry)
    series.seen(group)
    created = seconds_of(group.metadata.creation_timestamp)
    assert series.placed(group, 10.0**10) == (10.0**10 - created) * 1000
    series.shares({"t/j": 0.25, "t/unknown": 0.5})
    metrics.retries.labels("t", "j").inc()
    labels = 'job_name="j",job_namespace="t",queue="q"'
    now = shown(registry)
    assert now['volcano_job_share{job_id="j",job_ns="t"}'] == 0.25
    assert now['volcano_job_retry_counts{job_id="j",job_ns="t"}'] == 1
    assert now["volcano_e2e_job_scheduling_last_time{" + labels + "}"] == 10.0**10
    series.gone(["t/j"])
    after = shown(registry)
    assert {name for name in after if '"j"' in name} == set()
    assert set(before) <= set(after)


def test_session_measures_contain_queue_amounts_and_job_shares_of_the_plugins():
    case = {
        "podgroups": [["j", "q", 2, {"phase": "Inqueue"}]],
        "pods": [["j-0", "j", "-", 1, "1Gi"], ["j-1", "j", "-", 1, "1Gi"]],
    }
    measures = decide(case)[0].measures
    assert set(measures.amounts) == {"allocated", "request", "deserved", "inqueue"}
    assert measures.amounts["request"]["q"][0] == 2000
    assert measures.amounts["allocated"]["q"][0] == 2000  # placed in this session
    assert set(measures.numbers) == {"share", "weight", "overused"}
    assert 0 < measures.shares["t/j"] <= 1
