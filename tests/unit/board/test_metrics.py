"""What the board counts for alerts and dashboards."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from pyroclast.api.records.meta import Meta, OwnerReference
from pyroclast.api.types import QUEUES, Key
from pyroclast.kube.credentials.config import ClusterConfig
from pyroclast.kube.http.client import Client
from pyroclast.runtime.metrics import render
from pyroclast_board.cluster.cluster import Cluster
from pyroclast_board.cluster.jobs import JobRow
from pyroclast_board.cluster.records import (
    ShownContainerState,
    ShownContainerStatus,
    ShownObject,
    ShownPod,
    ShownPodStatus,
    ShownWait,
)
from pyroclast_board.metrics import JobEnds, WaitingJobs, is_below_guarantee

from .conftest import Board, fill, running_board


def row(**given: object) -> JobRow:
    values: dict[str, object] = dict.fromkeys(JobRow.__dataclass_fields__, "")
    values |= {"uid": "u", "queue": "q", "is_final": False, "pods": 1, "ready": 0, "retries": 0, "asks": {}, "labels": {}}
    values |= {"start": (), "created": "2026-01-01T00:00:00Z", "phase": "Pending", "code": "QueueFull"}
    return JobRow(**{**values, **given})  # type: ignore[arg-type]


def test_job_wait_run_and_end_metrics_count_once_and_vanish_with_the_queue() -> None:
    registry = CollectorRegistry()
    cluster = Cluster(Client(ClusterConfig("http://127.0.0.1:1")), "default")
    ends = JobEnds(registry, cluster)
    waits = row()
    runs = row(code="", phase="Running", changed="2026-01-01T00:05:00Z")
    over = row(code="", phase="Failed", changed="2026-01-01T01:05:00Z")
    for old, new in ((None, waits), (waits, runs), (runs, row(code="", phase="Running", ready=1)), (runs, over), (over, over)):
        ends.changed(old, new)
    text = render(registry).decode()
    assert 'pyroclast_wait_seconds_sum{queue="q"} 300.0' in text
    assert 'pyroclast_run_seconds_sum{queue="q"} 3600.0' in text
    assert 'pyroclast_job_ends_total{queue="q",state="Failed"} 1.0' in text
    ends._queue_changed(ShownObject(metadata=ShownObject().metadata.__class__(name="q")), None)
    assert 'queue="q"' not in render(registry).decode()


def test_queue_is_below_its_guarantee_when_any_resource_is_allocated_less() -> None:
    spec = {"guarantee": {"resource": {"cpu": "2", "memory": "4Gi"}}}
    assert is_below_guarantee(ShownObject(spec=spec, status={"allocated": {"cpu": "2", "memory": "1Gi"}}))
    assert not is_below_guarantee(ShownObject(spec=spec, status={"allocated": {"cpu": "2", "memory": "4096Mi"}}))
    assert not is_below_guarantee(ShownObject())


def test_running_job_counts_as_crashing_while_a_pod_is_in_crash_loop_back_off() -> None:
    registry = CollectorRegistry()
    cluster = Cluster(Client(ClusterConfig("http://127.0.0.1:1")), "default")
    WaitingJobs(registry, cluster)
    cluster.queues._store.put(ShownObject(metadata=Meta(name="q")))
    owner = OwnerReference(api_version="batch.volcano.sh/v1alpha1", kind="Job", name="j", uid="u", controller=True)

    def pod(name: str, reason: str) -> ShownPod:
        held = ShownContainerStatus(state=ShownContainerState(waiting=ShownWait(reason=reason)))
        well = ShownContainerStatus()
        status = ShownPodStatus(phase="Running", container_statuses=(well, held))
        return ShownPod(metadata=Meta(namespace="team", name=name, owner_references=(owner,)), status=status)

    def told() -> str:
        return next(line for line in render(registry).decode().splitlines() if line.startswith("pyroclast_crashing_jobs{"))

    cluster.table._rows["u"] = row(phase="Running", code="")
    first, second = pod("a", "CrashLoopBackOff"), pod("b", "CrashLoopBackOff")
    for each in (first, second):
        cluster.crashing.put_pod(None, each)
    assert told() == 'pyroclast_crashing_jobs{queue="q"} 1.0'
    cluster.crashing.put_pod(first, pod("a", ""))
    cluster.crashing.put_pod(second, None)
    assert told() == 'pyroclast_crashing_jobs{queue="q"} 0.0'
    cluster.crashing.put_pod(None, first)
    cluster.table._rows["u"] = row(phase="Pending", code="Crashing")
    assert told() == 'pyroclast_crashing_jobs{queue="q"} 0.0', "a Job that waits has a code"


async def test_waiting_job_metrics_are_computed_when_scraped() -> None:
    async with running_board() as board:
        await fill(board)
        await board.until("/jobs", "lost", "hidden-job", ">QueueFull<")
        registry = CollectorRegistry()
        cluster = Cluster(board.client, "default")
        WaitingJobs(registry, cluster)
        await follow(board, cluster)
        text = render(registry).decode()
    assert 'pyroclast_waiting_jobs{code="QueueFull",queue="research"} 2.0' in text
    assert 'pyroclast_waiting_resources{queue="research",resource="cpu"} 8.0' in text
    assert 'pyroclast_queue_below_guarantee{queue="research"} 0.0' in text
    assert 'pyroclast_longest_unexamined_seconds{queue="research"} 0.0' in text


async def follow(board: Board, cluster: Cluster) -> None:
    """Let the cluster know what the server knows."""
    import asyncio

    tasks = [asyncio.create_task(informer.run()) for informer in cluster.informers]
    for informer in cluster.informers:
        await informer.synced()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert await board.client.get(QUEUES, Key("", "research"))
