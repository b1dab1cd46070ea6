"""Every metric of the scheduler that the specification names is set by a scheduler at work, and its series end."""

import asyncio
import contextlib

import msgspec
from prometheus_client import CollectorRegistry

from pyroclast.api import records
from pyroclast.api.types import NODES, POD_GROUPS, PODS, PRIORITY_CLASSES, QUEUES, Key
from pyroclast.kube.basics.time_slices import Turn
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.kube.http.client import PatchKind
from pyroclast.runtime.service import Service
from pyroclast.runtime.settings import load
from pyroclast_scheduler import registry
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.session.configuration import Configuration
from pyroclast_scheduler.session.outcome import Binds, CardUse, Commit, Preparation, Write
from pyroclast_scheduler.session.ports import Ports
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.settings import SchedulerSettings
from pyroclast_scheduler.shell.binder import Binder
from pyroclast_scheduler.shell.metrics import SchedulerMetrics
from pyroclast_scheduler.shell.object_metrics import CardSeries
from pyroclast_scheduler.wiring import main
from tests.scenarios import objects
from tests.unit.scheduler.plugins.test_deviceshare import VIRTUAL, VIRTUAL_CARDS
from tests.unit.scheduler.plugins.test_deviceshare import Cluster as Devices

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
    spec = {"weight": 1, "capability": {"cpu": "100", "memory": "100Gi", "pods": "100"}}
    queue = {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": "q"}, "spec": spec}
    await cluster.client.create(QUEUES, queue)
    seen: set[str] = set()
    async with service(cluster, tmp_path / "one.conf", "capacity") as scheduler:
        await cluster.gang("low", 2, cpu="2", minimum=1, queue="q", phase="Inqueue")
        await cluster.gang("large", 2, cpu="9", queue="q", phase="Inqueue")
        await cluster.until(lambda: all_placed(cluster, "low-"))
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


async def all_placed(cluster, prefix):
    places = await cluster.places(prefix)
    return places and all(places.values())


async def test_writes_before_a_bind_are_measured_as_prebind(cluster):
    await cluster.node("n1")
    await cluster.gang("g", 1)
    cache, metrics = Cache(), SchedulerMetrics(CollectorRegistry())
    node = await cluster.client.get(NODES, Key("", "n1"))
    cache.node_changed(None, msgspec.convert(node, records.Node, strict=False))
    pod = msgspec.convert(await cluster.client.get(PODS, Key("default", "g-w-0")), records.Pod, strict=False)
    cache.pod_changed(None, pod)
    parts = cluster.client, cache, EventRecorder(cluster.client, "test"), metrics
    binder = Binder(*parts, refused=lambda _task, _why: None, lock=lambda _node: ("", 0.0))
    uid = pod.metadata.uid
    write = Write(PODS, pod.key, {"metadata": {"annotations": {"prepared": "yes"}}})
    async with asyncio.TaskGroup() as group:
        work = group.create_task(binder.run())
        await binder.take(
            Commit((Binds("default/g", ((uid, "n1"),), {uid: (Preparation(writes=(write,)),)}),)), Turn(), session=0.0
        )
        await cluster.until(lambda: all_placed(cluster, "g-"))
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
