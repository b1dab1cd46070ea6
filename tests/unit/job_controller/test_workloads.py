"""PodGroups of ReplicaSets and StatefulSets, whose controllers the test stands in for: it makes their pods."""

import pytest

from pyroclast.api.types import POD_GROUPS, PODS, REPLICA_SETS, STATEFUL_SETS, Key
from pyroclast.kube.http.client import PatchKind

from .cluster import NS, key_of, running_cluster


@pytest.fixture
async def cluster():
    async with running_cluster() as running:
        running.holding.add("all")
        yield running


def template(cpu="100m"):
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
    spec = {"schedulerName": "volcano", "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"metadata": {"labels": {"app": "a"}}, "spec": spec}


async def workload(cluster, kind, replicas=2, **meta):
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "a"}}, "template": template()}
    if kind is STATEFUL_SETS:
        spec["serviceName"] = "s"
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "w", "namespace": NS, **meta}, "spec": spec}
    return await cluster.client.create(kind, body)


async def pod(cluster, name, owner, cpu="100m", **labels):
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": "w", "uid": owner["metadata"]["uid"]}
    made = template(cpu)
    meta = {
        "name": name,
        "namespace": NS,
        "labels": {"app": "a", **labels},
        "ownerReferences": [{**reference, "controller": True}],
    }
    await cluster.client.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": made["spec"]})


async def groups(cluster):
    return {item["metadata"]["name"]: item for item in (await cluster.client.list(POD_GROUPS, NS))[0]}


async def annotated(cluster, name):
    annotations = (await cluster.client.get(PODS, Key(NS, name)))["metadata"].get("annotations") or {}
    return annotations.get("scheduling.k8s.io/group-name")


async def scale(cluster, kind, replicas):
    await cluster.client.patch(kind, Key(NS, "w"), {"spec": {"replicas": replicas}}, PatchKind.MERGE)


@pytest.mark.parametrize("kind", [REPLICA_SETS, STATEFUL_SETS], ids=lambda kind: kind.kind)
async def test_pods_share_a_group_that_goes_when_there_are_none(cluster, kind):
    owner = await workload(cluster, kind, annotations={"scheduling.volcano.sh/group-min-member": "2", "volcano.sh/x": "y"})
    name = f"podgroup-{owner['metadata']['uid']}"
    cluster.server.forget_requests()
    for number in range(2):
        await pod(cluster, f"w-{number}", owner)

    async def given():
        return [await annotated(cluster, f"w-{number}") for number in range(2)] == [name] * 2

    await cluster.until(given)
    (group,) = (await groups(cluster)).values()
    assert (group["spec"]["minMember"], group["metadata"]["annotations"]) == (2, {"volcano.sh/x": "y"})
    assert group["metadata"]["ownerReferences"][0]["kind"] == kind.kind

    async def gone():
        return not await groups(cluster)

    await scale(cluster, kind, 0)
    await cluster.until(gone)
    await scale(cluster, kind, 1)  # before the pods that are there have gone

    async def there():
        return list(await groups(cluster)) == [name]

    await cluster.until(there)


async def test_a_rolling_update_changes_the_group_with_the_first_new_pod(cluster):
    owner = await workload(cluster, STATEFUL_SETS)
    await cluster.client.patch(
        STATEFUL_SETS, Key(NS, "w"), {"status": {"replicas": 0, "updateRevision": "b"}}, PatchKind.MERGE, subresource="status"
    )
    name = f"podgroup-{owner['metadata']['uid']}"
    await pod(cluster, "w-0", owner, **{"controller-revision-hash": "a"})

    async def cpu():
        return [group["spec"]["minResources"]["cpu"] for group in (await groups(cluster)).values()]

    async def made():
        return await cpu() == ["100m"] and await annotated(cluster, "w-0") == name

    await cluster.until(made)
    await pod(cluster, "w-1", owner, cpu="2", **{"controller-revision-hash": "b"})

    async def followed():
        return await cpu() == ["2"] and await annotated(cluster, "w-1") == name

    await cluster.until(followed)
    await pod(cluster, "w-2", owner, cpu="1", **{"controller-revision-hash": "a"})

    async def late():
        return await annotated(cluster, "w-2") == name

    await cluster.until(late)
    assert await cpu() == ["2"]


async def test_a_group_deleted_by_hand_is_made_again_and_one_in_the_place_of_another_is_left_alone(cluster):
    owner = await workload(cluster, REPLICA_SETS, 1)
    meta = {"name": "alone", "namespace": NS}
    await cluster.client.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template()["spec"]})
    await pod(cluster, "w-0", owner)

    async def two():
        return len(await groups(cluster)) == 2 and await annotated(cluster, "alone") and await annotated(cluster, "w-0")

    await cluster.until(two)
    before = {group["metadata"]["uid"] for group in (await groups(cluster)).values()}
    for group in (await groups(cluster)).values():
        await cluster.client.delete(POD_GROUPS, key_of(group))

    async def again():
        uids = {group["metadata"]["uid"] for group in (await groups(cluster)).values()}
        return len(uids) == 2 and not uids & before

    await cluster.until(again)
    await cluster.client.delete(REPLICA_SETS, Key(NS, "w"), propagation="Background")
    await cluster.client.delete(PODS, Key(NS, "alone"))

    async def empty():
        return not await groups(cluster)

    await cluster.until(empty)


async def test_a_restart_finds_out_what_it_missed(cluster):
    owner = await workload(cluster, REPLICA_SETS, 1)
    await pod(cluster, "w-0", owner)

    async def given():
        return await annotated(cluster, "w-0")

    await cluster.until(given)
    await cluster.kill()
    await scale(cluster, REPLICA_SETS, 0)
    await pod(cluster, "w-1", owner)
    await cluster.start()

    async def settled():
        return not await groups(cluster)

    await cluster.until(settled)
