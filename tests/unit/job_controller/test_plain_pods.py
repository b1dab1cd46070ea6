"""PodGroups of pods of workloads whose size changes at an awkward moment."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from pyroclast.api.types import POD_GROUPS, PODS, REPLICA_SETS, Key, ResourceType
from pyroclast.kube.client import PatchKind

from .cluster import NS
from .memory_cluster import MemoryCluster, in_virtual_time


def replica_set(cluster: MemoryCluster, replicas: int) -> dict[str, Any]:
    body = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "w", "namespace": NS}}
    return cluster.server.create(REPLICA_SETS, {**body, "spec": {"replicas": replicas}})


def pod(cluster: MemoryCluster, name: str, owner: dict[str, Any]) -> None:
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "w", "uid": owner["metadata"]["uid"], "controller": True}
    meta = {"name": name, "namespace": NS, "ownerReferences": [reference]}
    spec = {"schedulerName": "volcano", "containers": [{"name": "c", "image": "busybox"}]}
    cluster.server.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})


def scale(cluster: MemoryCluster, replicas: int) -> None:
    cluster.server.patch(REPLICA_SETS, Key(NS, "w"), {"spec": {"replicas": replicas}}, PatchKind.MERGE)


def group_of(cluster: MemoryCluster, name: str) -> str:
    annotations = cluster.server.of(PODS)[Key(NS, name)]["metadata"].get("annotations") or {}
    return str(annotations.get("scheduling.k8s.io/group-name", ""))


def test_no_group_is_left_by_a_pod_that_comes_when_its_workload_has_been_scaled_to_nothing() -> None:
    async def scenario(cluster: MemoryCluster) -> list[Key]:
        owner = replica_set(cluster, 0)
        await asyncio.sleep(1)
        pod(cluster, "w-0", owner)
        await asyncio.sleep(1)
        cluster.server.delete(PODS, Key(NS, "w-0"))
        await asyncio.sleep(60)
        return list(cluster.server.of(POD_GROUPS))

    assert in_virtual_time(scenario, workloads=True) == []


def test_no_group_is_left_when_its_workload_was_scaled_to_nothing_while_it_was_being_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(cluster: MemoryCluster) -> list[Key]:
        owner = replica_set(cluster, 1)
        await asyncio.sleep(1)
        create = cluster.replica.client.create

        async def create_late(kind: ResourceType, body: Mapping[str, Any], **more: Any) -> dict[str, Any]:
            if kind == POD_GROUPS:
                scale(cluster, 0)
                await asyncio.sleep(1)  # the watch is quicker
            return await create(kind, body, **more)

        monkeypatch.setattr(cluster.replica.client, "create", create_late)
        pod(cluster, "w-0", owner)
        await asyncio.sleep(2)
        cluster.server.delete(PODS, Key(NS, "w-0"))
        await asyncio.sleep(60)
        return list(cluster.server.of(POD_GROUPS))

    assert in_virtual_time(scenario, workloads=True) == []


def test_all_pods_get_the_group_when_the_news_of_their_workload_comes_late() -> None:
    async def scenario(cluster: MemoryCluster) -> None:
        owner = replica_set(cluster, 0)
        await asyncio.sleep(1)
        for name in ("w-0", "w-1"):
            pod(cluster, name, owner)
        await asyncio.sleep(1)
        scale(cluster, 2)
        await asyncio.sleep(1)
        name = f"podgroup-{owner['metadata']['uid']}"
        assert list(cluster.server.of(POD_GROUPS)) == [Key(NS, name)]
        assert [group_of(cluster, each) for each in ("w-0", "w-1")] == [name, name]

    in_virtual_time(scenario, workloads=True)


def test_a_group_of_a_pod_alone_that_went_while_nobody_looked_is_made_again() -> None:
    async def scenario(cluster: MemoryCluster) -> None:
        spec = {"schedulerName": "volcano", "containers": [{"name": "c", "image": "busybox"}]}
        meta = {"name": "alone", "namespace": NS}
        cluster.server.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
        await cluster.until(lambda: group_of(cluster, "alone"))
        await cluster.replica.kill()
        cluster.server.delete(POD_GROUPS, Key(NS, group_of(cluster, "alone")))
        await cluster.start_controller()
        await cluster.until(lambda: [key.name for key in cluster.server.of(POD_GROUPS)] == [group_of(cluster, "alone")])

    in_virtual_time(scenario, workloads=True)
