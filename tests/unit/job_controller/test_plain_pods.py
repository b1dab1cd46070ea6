"""PodGroups of pods without a Job of ours: of workloads, whose controllers the tests stand in for, and of pods alone."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from pyroclast.api.types import BATCH_JOBS, POD_GROUPS, PODS, REPLICA_SETS, STATEFUL_SETS, Key, ResourceType
from pyroclast.kube.http.client import PatchKind

from .cluster import NS
from .memory_cluster import MemoryCluster, virtual_cluster

CONTAINERS = [{"name": "c", "image": "busybox"}]


def workload(cluster: MemoryCluster, replicas: int, kind: ResourceType = REPLICA_SETS, **meta: Any) -> dict[str, Any]:
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "w", "namespace": NS, **meta}}
    return cluster.server.create(kind, {**body, "spec": {"replicas": replicas}})


def pod(cluster: MemoryCluster, name: str, owner: dict[str, Any] | None = None, cpu: str = "", **labels: str) -> None:
    """A pod of the owner, or alone."""
    meta: dict[str, Any] = {"name": name, "namespace": NS, "labels": labels}
    if owner is not None:
        reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True}
        meta["ownerReferences"] = [{**reference, "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}]
    containers = [{**CONTAINERS[0], "resources": {"requests": {"cpu": cpu}}}] if cpu else CONTAINERS
    spec = {"schedulerName": "volcano", "containers": containers}
    cluster.server.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})


def scale(cluster: MemoryCluster, replicas: int, kind: ResourceType = REPLICA_SETS) -> None:
    cluster.server.patch(kind, Key(NS, "w"), {"spec": {"replicas": replicas}}, PatchKind.MERGE)


def group_of(cluster: MemoryCluster, name: str) -> str:
    annotations = cluster.server.of(PODS)[Key(NS, name)]["metadata"].get("annotations") or {}
    return str(annotations.get("scheduling.k8s.io/group-name", ""))


def groups(cluster: MemoryCluster) -> list[dict[str, Any]]:
    return list(cluster.server.of(POD_GROUPS).values())


@pytest.mark.parametrize("kind", [REPLICA_SETS, STATEFUL_SETS], ids=lambda kind: kind.kind)
@virtual_cluster(workloads=True)
async def test_pods_of_a_workload_share_a_podgroup_that_is_deleted_at_zero_replicas(
    cluster: MemoryCluster, kind: ResourceType
) -> None:
    annotations = {"scheduling.volcano.sh/group-min-member": "2", "volcano.sh/x": "y"}
    owner = workload(cluster, 2, kind, annotations=annotations)
    name = f"podgroup-{owner['metadata']['uid']}"
    for each in ("w-0", "w-1"):
        pod(cluster, each, owner)
    await cluster.until(lambda: [group_of(cluster, each) for each in ("w-0", "w-1")] == [name, name])
    (group,) = groups(cluster)
    assert (group["spec"]["minMember"], group["metadata"]["annotations"]) == (2, {"volcano.sh/x": "y"})
    assert group["metadata"]["ownerReferences"][0]["kind"] == kind.kind
    scale(cluster, 0, kind)
    await cluster.until(lambda: not groups(cluster))
    scale(cluster, 1, kind)  # before the pods that are there have gone
    await cluster.until(lambda: [each["metadata"]["name"] for each in groups(cluster)] == [name])


MINIMUM = "scheduling.volcano.sh/group-min-member"


@virtual_cluster(workloads=True)
async def test_minimum_of_a_group_grows_with_its_workload_and_follows_its_annotations(cluster: MemoryCluster) -> None:
    owner = workload(cluster, 1, annotations={MINIMUM: "2"})  # as a rolling update with maxSurge 1 begins
    pod(cluster, "w-0", owner)
    minimum = lambda: [each["spec"]["minMember"] for each in groups(cluster)]  # noqa: E731
    await cluster.until(lambda: minimum() == [1])
    await cluster.until(lambda: group_of(cluster, "w-0"))
    scale(cluster, 3)
    await cluster.until(lambda: minimum() == [2])
    for said, want in (("3", 3), ("1", 1)):
        patch = {"metadata": {"annotations": {MINIMUM: said, "volcano.sh/x": said}}}
        cluster.server.patch(REPLICA_SETS, Key(NS, "w"), patch, PatchKind.MERGE)
        await cluster.until(lambda want=want: minimum() == [want])  # type: ignore[misc]
    assert groups(cluster)[0]["metadata"]["annotations"] == {"volcano.sh/x": "1"}


@pytest.mark.parametrize(("policy", "want"), [("Parallel", 2), ("OrderedReady", 1)])
@virtual_cluster(workloads=True)
async def test_minimum_of_a_statefulset_counts_only_pods_that_are_created_at_once(
    cluster: MemoryCluster, policy: str, want: int
) -> None:
    meta = {"name": "w", "namespace": NS, "annotations": {MINIMUM: "2"}}
    body = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta}
    owner = cluster.server.create(STATEFUL_SETS, {**body, "spec": {"replicas": 2, "podManagementPolicy": policy}})
    pod(cluster, "w-0", owner)
    await cluster.until(lambda: [each["spec"]["minMember"] for each in groups(cluster)] == [want])


@virtual_cluster(workloads=True)
async def test_a_rolling_update_changes_the_group_with_the_first_new_pod(cluster: MemoryCluster) -> None:
    owner = workload(cluster, 2, STATEFUL_SETS)
    revision = {"status": {"replicas": 0, "updateRevision": "b"}}
    cluster.server.patch(STATEFUL_SETS, Key(NS, "w"), revision, PatchKind.MERGE, "status")
    for name, cpu, hashed, want in (("w-0", "100m", "a", "100m"), ("w-1", "2", "b", "2"), ("w-2", "1", "a", "2")):
        pod(cluster, name, owner, cpu, **{"controller-revision-hash": hashed})
        await cluster.until(lambda name=name: group_of(cluster, name))  # type: ignore[misc]
        await asyncio.sleep(1)
        assert [group["spec"]["minResources"]["cpu"] for group in groups(cluster)] == [want]


@virtual_cluster(workloads=True)
async def test_groups_that_are_deleted_by_hand_are_made_again(cluster: MemoryCluster) -> None:
    pod(cluster, "w-0", workload(cluster, 1))
    pod(cluster, "alone")
    await cluster.until(lambda: group_of(cluster, "w-0") and group_of(cluster, "alone"))
    before = {group["metadata"]["uid"] for group in groups(cluster)}
    for key in list(cluster.server.of(POD_GROUPS)):
        cluster.server.delete(POD_GROUPS, key)
    await cluster.until(lambda: len(groups(cluster)) == 2)
    assert before.isdisjoint(group["metadata"]["uid"] for group in groups(cluster))


@virtual_cluster(workloads=True)
async def test_podgroup_of_a_workload_scaled_to_zero_during_a_downtime_is_deleted(cluster: MemoryCluster) -> None:
    owner = workload(cluster, 1)
    pod(cluster, "w-0", owner)
    await cluster.until(lambda: group_of(cluster, "w-0"))
    await cluster.replica.kill()
    scale(cluster, 0)
    pod(cluster, "w-1", owner)
    await cluster.start_controller()
    await cluster.until(lambda: not groups(cluster))


@virtual_cluster(workloads=True)
async def test_no_podgroup_remains_for_a_pod_created_after_its_workload_was_scaled_to_zero(cluster: MemoryCluster) -> None:
    owner = workload(cluster, 0)
    await asyncio.sleep(1)
    pod(cluster, "w-0", owner)
    await asyncio.sleep(1)
    cluster.server.delete(PODS, Key(NS, "w-0"))
    await asyncio.sleep(60)
    assert list(cluster.server.of(POD_GROUPS)) == []


@virtual_cluster(workloads=True)
async def test_no_podgroup_remains_when_its_workload_is_scaled_to_zero_during_its_creation(
    cluster: MemoryCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    owner = workload(cluster, 1)
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
    assert list(cluster.server.of(POD_GROUPS)) == []


@virtual_cluster(workloads=True)
async def test_all_pods_get_the_podgroup_when_the_update_of_their_workload_arrives_late(cluster: MemoryCluster) -> None:
    owner = workload(cluster, 0)
    await asyncio.sleep(1)
    for name in ("w-0", "w-1"):
        pod(cluster, name, owner)
    await asyncio.sleep(1)
    scale(cluster, 2)
    await asyncio.sleep(1)
    name = f"podgroup-{owner['metadata']['uid']}"
    assert list(cluster.server.of(POD_GROUPS)) == [Key(NS, name)]
    assert [group_of(cluster, each) for each in ("w-0", "w-1")] == [name, name]


@virtual_cluster(workloads=True)
async def test_podgroup_of_an_ownerless_pod_deleted_during_a_downtime_is_recreated(cluster: MemoryCluster) -> None:
    pod(cluster, "alone")
    await cluster.until(lambda: group_of(cluster, "alone"))
    await cluster.replica.kill()
    cluster.server.delete(POD_GROUPS, Key(NS, group_of(cluster, "alone")))
    await cluster.start_controller()
    await cluster.until(lambda: [key.name for key in cluster.server.of(POD_GROUPS)] == [group_of(cluster, "alone")])


@virtual_cluster(workloads=True)
async def test_batch_job_of_a_cronjob_gets_a_podgroup_by_its_gang_policy_and_an_event(
    cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, str]] = []
    recorder = cluster.replica.shared.recorder
    monkeypatch.setattr(recorder, "event", lambda about, _, reason, *__: told.append((about.kind, reason)))
    maker = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": "cu", "controller": True}
    policy = {"schedulingPolicy": {"gang": {"minCount": 3}}}
    meta = {"name": "j", "namespace": NS, "ownerReferences": [maker]}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"parallelism": 4, "scheduling": policy}}
    job = cluster.server.create(BATCH_JOBS, body)
    for name in ("j-0", "j-1"):
        pod(cluster, name, job)
    await cluster.until(lambda: group_of(cluster, "j-0") and group_of(cluster, "j-1"))
    (group,) = cluster.server.of(POD_GROUPS).values()
    assert group["spec"]["minMember"] == 3
    assert told == [("Job", "SchedulingTakenOver")]


@virtual_cluster(workloads=True)
async def test_pods_in_a_native_podgroup_get_no_volcano_podgroup(cluster: MemoryCluster) -> None:
    spec = {"schedulerName": "volcano", "schedulingGroup": {"podGroupName": "g"}, "containers": [{"name": "c", "image": "i"}]}
    meta = {"name": "p", "namespace": NS}
    cluster.server.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    await asyncio.sleep(60)
    assert list(cluster.server.of(POD_GROUPS)) == []


def foreign_group(cluster: MemoryCluster, name: str) -> Key:
    body = {"apiVersion": POD_GROUPS.api_version, "kind": "PodGroup", "spec": {"minMember": 7}}
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "mine", "uid": "other", "controller": True}
    cluster.server.create(POD_GROUPS, {**body, "metadata": {"name": name, "namespace": NS, "ownerReferences": [owner]}})
    return Key(NS, name)


@pytest.mark.parametrize("is_seen", [True, False], ids=["seen", "found"])
@virtual_cluster(workloads=True)
async def test_foreign_podgroup_is_not_adopted_but_reported_until_it_is_deleted(
    cluster: MemoryCluster, is_seen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, tried = [], []
    monkeypatch.setattr(cluster.replica.shared.recorder, "event", lambda *event: told.append(event))
    owner = workload(cluster, 1)
    name = f"podgroup-{owner['metadata']['uid']}"
    create = cluster.replica.client.create

    async def create_when_it_is_there(kind: ResourceType, body: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        if kind == POD_GROUPS and not tried and not is_seen:
            foreign_group(cluster, name)
        tried.append(kind)
        return await create(kind, body, **more)

    monkeypatch.setattr(cluster.replica.client, "create", create_when_it_is_there)
    if is_seen:
        foreign_group(cluster, name)
        await asyncio.sleep(1)
    pod(cluster, "w-0", owner)
    await asyncio.sleep(60)
    assert len(tried) == (0 if is_seen else 1)
    assert cluster.server.of(POD_GROUPS)[Key(NS, name)]["spec"] == {"minMember": 7}
    assert group_of(cluster, "w-0") == ""
    assert 3 <= len(told) <= 7  # ever more rarely
    about, *words = told[0]
    assert (about.kind, about.name, about.uid) == ("ReplicaSet", "w", owner["metadata"]["uid"])
    assert words == ["Warning", "PodGroupError", f"PodGroup {NS}/{name} exists and does not belong to this ReplicaSet"]
    cluster.server.delete(POD_GROUPS, Key(NS, name))
    await cluster.until(lambda: group_of(cluster, "w-0") == name)
    assert cluster.server.of(POD_GROUPS)[Key(NS, name)]["metadata"]["ownerReferences"][0]["name"] == "w"


@virtual_cluster(workloads=True)
async def test_foreign_podgroup_with_the_name_for_an_ownerless_pod_is_reported_on_the_pod(
    cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []
    monkeypatch.setattr(cluster.replica.shared.recorder, "event", lambda *event: told.append(event))
    create = cluster.replica.client.create

    async def create_late(kind: ResourceType, body: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        foreign_group(cluster, body["metadata"]["name"])
        return await create(kind, body, **more)

    monkeypatch.setattr(cluster.replica.client, "create", create_late)
    pod(cluster, "alone")
    await cluster.until(lambda: told)
    assert (told[0][0].kind, told[0][0].name) == ("Pod", "alone")
    assert told[0][3].endswith("does not belong to this Pod")
    assert group_of(cluster, "alone") == ""


@virtual_cluster(workloads=True)
async def test_podgroup_that_exists_after_a_lost_create_response_is_adopted(
    cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = cluster.replica.client.create

    async def create_twice(kind: ResourceType, body: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        await create(kind, body, **more)
        return await create(kind, body, **more)

    monkeypatch.setattr(cluster.replica.client, "create", create_twice)
    owner = workload(cluster, 1)
    pod(cluster, "w-0", owner)
    await cluster.until(lambda: group_of(cluster, "w-0") == f"podgroup-{owner['metadata']['uid']}")


@virtual_cluster(workloads=True)
async def test_foreign_podgroup_is_not_deleted_when_the_workload_is_scaled_to_zero(cluster: MemoryCluster) -> None:
    owner = workload(cluster, 1)
    key = foreign_group(cluster, f"podgroup-{owner['metadata']['uid']}")
    await asyncio.sleep(1)
    scale(cluster, 0)
    await asyncio.sleep(60)
    assert list(cluster.server.of(POD_GROUPS)) == [key]
