"""The scheduler at work sets every metric that the specification names, and series end with their objects."""

from __future__ import annotations

import asyncio
import contextlib

import numpy as np
from prometheus_client import CollectorRegistry, generate_latest

from pyroclast.api.types import POD_GROUPS, PODS, PRIORITY_CLASSES, QUEUES, Key
from pyroclast.kube.basics.time_slices import Turn
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.kube.http.client import PatchKind
from pyroclast.lifecycle.gang.groups import volcano_group
from pyroclast.runtime.service import Service
from pyroclast.runtime.settings import load
from pyroclast_scheduler import registry
from pyroclast_scheduler.model.tasks import seconds_of
from pyroclast_scheduler.session.configuration import Configuration
from pyroclast_scheduler.session.outcome import Binds, CardUse, Commit, Measures, Preparation, Write
from pyroclast_scheduler.session.ports import Ports
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.settings import SchedulerSettings
from pyroclast_scheduler.shell.binder import Binder
from pyroclast_scheduler.shell.metrics import SchedulerMetrics
from pyroclast_scheduler.shell.object_metrics import CardSeries, JobSeries, QueueSeries
from pyroclast_scheduler.wiring import main
from tests.scenarios import objects
from tests.unit.scheduler.plugins.test_deviceshare import VIRTUAL, VIRTUAL_CARDS
from tests.unit.scheduler.plugins.test_deviceshare import Cluster as Devices
from tests.unit.scheduler.session.test_causes import decide
from tests.unit.scheduler.shell.test_service import all_bound

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


STAGES = {
    "scheduling_stage_duration_milliseconds": {"Predicate", "Scoring", "PreBind", "Bind"},
    "task_scheduling_latency_milliseconds": {"Watched", "Assumed", "PreBound", "Bound"},
}
BY_QUEUE = {"allocated", "request", "deserved", "inqueue", "capacity", "real_capacity"}
PLAIN = {
    "e2e_scheduling_latency_milliseconds",
    "open_session_duration_milliseconds",
    "e2e_job_scheduling_latency_milliseconds",
    "e2e_job_scheduling_duration",
    "e2e_job_scheduling_start_time",
    "e2e_job_scheduling_last_time",
    "plugin_scheduling_latency_milliseconds",
    "action_scheduling_latency_milliseconds",
    "schedule_attempts_total",
    "pod_preemption_victims",
    "total_preemption_attempts",
    "eviction_transactions_total",
    "unschedule_task_count",
    "unschedule_job_count",
    "job_retry_counts",
    "job_share",
    "queue_share",
    "queue_weight",
    "queue_overused",
} | {f"queue_{kind}_{unit}" for kind in BY_QUEUE for unit in ("milli_cpu", "memory_bytes", "scalar_resources")}
"""All of the specification but namespace_share and its kin, which the original declares and never sets, and cards and stages."""
CONFIGURATION = """
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: %s}, {name: nodeorder}]
"""


def samples(collected):
    return [sample for family in collected.collect() for sample in family.samples]


def names(collected):
    """The metrics that have a value, histograms only when something was observed."""
    found = set()
    for sample in samples(collected):
        base = sample.name.removeprefix("volcano_")
        if base.endswith("_count") and base.removesuffix("_count").endswith("milliseconds"):
            found |= {base.removesuffix("_count")} if sample.value else set()
        else:
            found.add(base)
    return found


def stages(collected, metric):
    return {each.labels["stage"] for each in samples(collected) if each.name == f"volcano_{metric}_count" and each.value}


@contextlib.asynccontextmanager
async def service(cluster, path, plugin):
    path.write_text(CONFIGURATION % plugin)
    flags = {"kubeconfig": str(cluster.server.kubeconfig), "leader-elect": "false", "scheduler-conf": str(path)}
    made = Service("pyroclast-scheduler", load(SchedulerSettings, flags))
    task = asyncio.create_task(made.run(main))
    try:
        yield made
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def run(cluster, name):
    """Let the pods of a gang be running."""
    for i in range(2):
        key, patch = Key("default", f"{name}-w-{i}"), {"status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}}
        await cluster.client.patch(PODS, key, patch, PatchKind.MERGE, subresource="status")


async def test_every_specified_metric_is_set_and_series_of_deleted_jobs_and_queues_are_removed(cluster, tmp_path):
    urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 1000}
    await cluster.client.create(PRIORITY_CLASSES, urgent)
    await cluster.node("n1", cpu="4")
    await cluster.queue("q", weight=1, capability={"cpu": "100", "memory": "100Gi", "pods": "100"})
    seen: set[str] = set()
    async with service(cluster, tmp_path / "one.conf", "capacity") as scheduler:
        await cluster.gang("low", 2, cpu="2", minimum=1, queue="q", phase="Inqueue")
        await cluster.gang("large", 2, cpu="9", queue="q", phase="Inqueue")
        await cluster.until(all_bound(cluster, "low-"))
        await run(cluster, "low")
        await cluster.gang("high", 1, cpu="2", queue="q", phase="Inqueue", priority="urgent")
        metrics = scheduler.metrics
        want = {"pod_preemption_victims", "eviction_transactions_total", "queue_capacity_milli_cpu", "unschedule_task_count"}
        await cluster.until(lambda: holds(want <= names(metrics)))
        seen |= names(metrics)
        found = {metric: stages(metrics, metric) for metric in STAGES}
        for name in ("low", "large", "high"):
            await cluster.client.delete(POD_GROUPS, Key("default", name))
        await cluster.client.delete(QUEUES, Key("", "q"))
        await cluster.until(lambda: holds(not mentioned(metrics, "low", "large", "high")))
        await cluster.until(lambda: holds(not [each for each in samples(metrics) if each.labels.get("queue_name") == "q"]))
    async with service(cluster, tmp_path / "two.conf", "proportion") as scheduler:
        metrics = scheduler.metrics
        await cluster.gang("more", 1, cpu="9", phase="Inqueue")
        least = {"spec": {"minResources": {"cpu": "9", "pods": "1"}}}
        await cluster.client.patch(POD_GROUPS, Key("default", "more"), least, PatchKind.MERGE)
        scalars = "queue_inqueue_scalar_resources"
        await cluster.until(lambda: holds({"queue_weight", scalars} <= names(metrics)))
        seen |= names(metrics)
    assert PLAIN - seen == set()
    assert found["scheduling_stage_duration_milliseconds"] | {"PreBind"} == STAGES["scheduling_stage_duration_milliseconds"]
    assert found["task_scheduling_latency_milliseconds"] | {"PreBound"} == STAGES["task_scheduling_latency_milliseconds"]


def mentioned(collected, *jobs):
    return [each for each in samples(collected) if {each.labels.get("job_id"), each.labels.get("job_name")} & set(jobs)]


async def holds(value):
    return value


async def test_writes_before_a_bind_are_measured_as_prebind(cluster):
    await cluster.node("n1")
    await cluster.gang("g", 1)
    (cache, uid), metrics = await cluster.known("g-w-0", "n1"), SchedulerMetrics(CollectorRegistry())
    parts = cluster.client, cache, EventRecorder(cluster.client, "test"), metrics
    binder = Binder(*parts, refused=lambda _task, _why: None, lock=lambda _node: ("", 0.0))
    write = Write(PODS, Key("default", "g-w-0"), {"metadata": {"annotations": {"prepared": "yes"}}})
    async with asyncio.TaskGroup() as group:
        work = group.create_task(binder.run())
        await binder.take(
            Commit((Binds("default/g", ((uid, "n1"),), {uid: (Preparation(writes=(write,)),)}),)), Turn(), session=0.0
        )
        await cluster.until(all_bound(cluster, "g-"))
        work.cancel()
    assert stages(metrics.registry, "scheduling_stage_duration_milliseconds") == {"PreBind", "Bind"}
    assert stages(metrics.registry, "task_scheduling_latency_milliseconds") == {"Assumed", "PreBound", "Bound"}


def measured(cluster, *, again=False):
    """What a session tells of the cards of node n, nothing the second time."""
    settings = Configuration((), ((cluster.entry,),))
    for _ in range(1 + again):
        session = Session(cluster.cache.view(), settings, registry.plugins(), Ports(objects.NOW, memory=cluster.memory), uid="s")
        session.close_plugins()
    return session.report.measures.cards.get("n", ())


def test_gpu_card_metrics_report_shared_use_and_are_removed_with_their_node():
    cluster = Devices(VIRTUAL, [["n", 8, "8Gi", VIRTUAL_CARDS]])
    asks = {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 3, "volcano.sh/vgpu-cores": 30}
    cluster.session(["p", "j", "-", 1, "1G", asks])
    cluster.cache.pod_changed(objects.pod(["p", "j", "-", 1, "1G", asks]), objects.pod(["p", "j", "n", 1, "1G", asks]))
    (one, other), nothing = measured(cluster), measured(cluster, again=True)
    assert {one.memory, other.memory} == {8}
    assert sorted((one.pods, other.pods)) == [(), (("p", 3, 30),)]
    assert nothing == ()
    collected = CollectorRegistry()
    series = CardSeries(collected)
    use = CardUse("a", 8, (("p", 3, 50), ("r", 1, 10)))
    series.take({"n": (use,), "m": (use,)}, lambda _: True)
    shown = {
        (each.name.removeprefix("volcano_vgpu_device_"), each.labels.get("podName")): each.value
        for each in samples(collected)
        if each.labels["NodeName"] == "n"
    }
    assert shown == {
        ("shared_number", None): 2,
        ("allocated_memory", None): 4,
        ("allocated_cores", None): 60,
        ("memory_limit", None): 8,
        ("memory_allocation_for_a_certain_pod", "p"): 3,
        ("memory_allocation_for_a_certain_pod", "r"): 1,
        ("core_allocation_for_a_certain_pod", "p"): 50,
        ("core_allocation_for_a_certain_pod", "r"): 10,
    }
    series.take({"n": (CardUse("a", 8, ()),)}, lambda node: node == "n")
    assert {each.labels["NodeName"] for each in samples(collected)} == {"n"}
    assert not [each for each in samples(collected) if "podName" in each.labels]
