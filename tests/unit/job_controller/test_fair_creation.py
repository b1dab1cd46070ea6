"""No Job delays the Job of another tenant by its size: pods are created in turns, and no list is as long as a user says."""

import asyncio
import tracemalloc
from typing import Any

import pytest

from pyroclast.api.types import JOBS, PODS, Key, ResourceType

from .cluster import task
from .memory_cluster import MemoryCluster, virtual_cluster

HUGE = 2**31 - 1


def submit(cluster: MemoryCluster, namespace: str, replicas: int, name: str = "j", **spec: Any) -> None:
    meta = {"name": name, "namespace": namespace}
    tasks = [task("a", replicas, minAvailable=1)]
    spec = {"minAvailable": 1, "queue": "default", "schedulerName": "volcano", "tasks": tasks, **spec}
    cluster.server.create(JOBS, {"apiVersion": JOBS.api_version, "kind": "Job", "metadata": meta, "spec": spec})


def slow_creations(cluster: MemoryCluster, seconds: float) -> None:
    create = cluster.replica.client.create

    async def slowly(kind: ResourceType, body: Any, **more: Any) -> Any:
        if kind is PODS:
            await asyncio.sleep(seconds)
        return await create(kind, body, **more)

    cluster.replica.client.create = slowly  # type: ignore[method-assign]


def pods_of(cluster: MemoryCluster, namespace: str) -> int:
    return sum(key.namespace == namespace for key in cluster.server.of(PODS))


async def has_pod_within(cluster: MemoryCluster, namespace: str, seconds: float) -> None:
    async def admitting() -> None:
        while not pods_of(cluster, namespace):
            cluster.admit()
            await asyncio.sleep(0.05)

    await asyncio.wait_for(admitting(), seconds)


CASES = {
    "an elastic Job": (1, 1000, 1, 1.0),
    "a gang": (1, 1000, 1000, 1.0),
    "more elastic Jobs than workers": (40, 100, 1, 0.2),
    "more gangs than workers": (40, 100, 100, 0.2),
}


@pytest.mark.parametrize(("jobs", "pods", "minimum", "seconds"), CASES.values(), ids=CASES.keys())
@virtual_cluster()
async def test_job_of_another_namespace_has_its_pod_within_two_seconds(
    cluster: MemoryCluster, jobs: int, pods: int, minimum: int, seconds: float
) -> None:
    slow_creations(cluster, seconds)
    for number in range(jobs):
        submit(cluster, "bob", pods, f"j{number}", minAvailable=minimum)
    await asyncio.sleep(5)
    cluster.admit()
    await asyncio.sleep(5)
    submit(cluster, "alice", 1)
    await has_pod_within(cluster, "alice", 2.0 + seconds)


@virtual_cluster()
async def test_elastic_job_reports_its_running_pods_while_more_are_created(cluster: MemoryCluster) -> None:
    slow_creations(cluster, 1.0)
    cluster.job("j", task("a", 2000, minAvailable=1))
    await asyncio.sleep(1)
    cluster.admit()
    await asyncio.sleep(5)
    cluster.run_pods()
    await cluster.until(lambda: cluster.phase("j") == "Running", within=5.0)
    assert 0 < len(cluster.pods()) < 2000


@virtual_cluster()
async def test_job_with_two_billion_replicas_takes_little_memory(cluster: MemoryCluster) -> None:
    slow_creations(cluster, 5.0)
    tracemalloc.start()
    submit(cluster, "default", HUGE, plugins={"svc": [], "tensorflow": [], "env": []})
    submit(cluster, "other", HUGE)
    await asyncio.sleep(1)
    cluster.admit()
    await asyncio.sleep(30)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0 < len(cluster.pods()) < 1000
    assert most < 60_000_000
    waiting = cluster.server.of(JOBS)[Key("default", "j")]["status"]["state"]["message"]
    assert "the Job has 2147483647 pods; plugins list the hosts of Jobs with at most 1000000 pods" in waiting
