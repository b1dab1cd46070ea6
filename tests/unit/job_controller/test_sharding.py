"""NodeShards on the embedded API server."""

import pytest

from pyroclast.api.types import CONFIG_MAPS, EVENTS, NODE_SHARDS, NODES, PODS, Key
from pyroclast.kube.http.client import PatchKind

from .cluster import NS, running_cluster

ON = {"controllers": ("*",), "sharding_configmap": "s", "sharding_configmap_namespace": NS}


@pytest.fixture
async def cluster():
    async with running_cluster() as running:
        running.holding.add("all")
        await running.kill()
        for name in ("a", "b", "c"):
            meta = {"name": name}
            status = {"capacity": {"cpu": "4", "pods": "10"}, "allocatable": {"cpu": "4", "pods": "10"}}
            await running.client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status})
            await running.client.patch(NODES, Key("", name), {"status": status}, PatchKind.MERGE, subresource="status")
        await running.start(**ON)
        yield running


async def shards(cluster):
    items = (await cluster.client.list(NODE_SHARDS))[0]
    return {
        item["metadata"]["name"]: (item["spec"]["nodesDesired"], (item.get("status") or {}).get("nodesToAdd", []))
        for item in items
    }


def reaches(cluster, want):
    async def same():
        return await shards(cluster) == want

    return cluster.until(same)


async def configure(cluster, text, kind="create"):
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "s", "namespace": NS}, "data": {"sharding.yaml": text}}
    if kind == "create":
        await cluster.client.create(CONFIG_MAPS, body)
    else:
        await cluster.client.patch(CONFIG_MAPS, Key(NS, "s"), {"data": body["data"]}, PatchKind.MERGE)


async def test_node_shards_follow_node_load_nodes_in_use_and_deletions(cluster):
    everything = ["a", "b", "c"]
    await reaches(cluster, {"volcano": (everything, everything), "agent-scheduler": ([], [])})
    spec = {
        "nodeName": "b",
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "3"}}}],
    }
    await cluster.client.create(
        PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": NS}, "spec": spec}
    )
    await reaches(cluster, {"volcano": (["a", "c"], ["a", "c"]), "agent-scheduler": (["b"], ["b"])})
    used = {"status": {"nodesInUse": ["a", "b"]}}
    await cluster.client.patch(NODE_SHARDS, Key("", "volcano"), used, PatchKind.MERGE, subresource="status")
    await reaches(cluster, {"volcano": (["a", "c"], ["c"]), "agent-scheduler": (["b"], ["b"])})
    await cluster.client.delete(NODE_SHARDS, Key("", "agent-scheduler"))
    await cluster.client.delete(NODES, Key("", "c"))
    await reaches(cluster, {"volcano": (["a"], []), "agent-scheduler": (["b"], ["b"])})


async def test_sharding_configmap_replaces_the_defaults_and_an_invalid_one_leaves_the_last_in_force(cluster):
    await configure(cluster, "schedulerConfigs: [{name: only, policies: [{name: node-limit, arguments: {maxNodes: 2}}]}]")
    await reaches(cluster, {"only": (["a", "b"], ["a", "b"])})
    await configure(cluster, "schedulerConfigs: []", "patch")

    async def told():
        events = (await cluster.client.list(EVENTS, NS))[0]
        return [event for event in events if event["reason"] == "InvalidConfiguration"]

    await cluster.until(told)
    await cluster.client.delete(NODES, Key("", "a"))
    await reaches(cluster, {"only": (["b", "c"], ["b", "c"])})
    await cluster.kill()
    await cluster.client.delete(CONFIG_MAPS, Key(NS, "s"))
    await cluster.start(**ON)
    await reaches(cluster, {"volcano": (["b", "c"], ["b", "c"]), "agent-scheduler": ([], [])})


async def test_invalid_scheduler_name_does_not_stop_other_shards(cluster):
    await configure(cluster, "schedulerConfigs: [{name: No_Name, maxNodes: 1}, {name: volcano}]")
    await reaches(cluster, {"volcano": (["b", "c"], ["b", "c"])})
