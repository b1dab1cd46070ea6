"""Numa-aware in the service: Numatopologies are watched once it is configured, and pods are told of their CPUs."""

import json

import msgspec

from pyroclast.api import crds
from pyroclast.api.types import CRDS, NUMATOPOLOGIES, PODS, Key
from tests.scenarios.numa import numatopology

CONFIGURATION = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: numa-aware}]
"""


def body(free, policy):
    found = msgspec.to_builtins(numatopology("n", free, policy=policy))
    found["metadata"] = {"name": "n"}
    return {"apiVersion": NUMATOPOLOGIES.api_version, "kind": NUMATOPOLOGIES.kind, **found}


async def pod(cluster, name):
    amounts = {"cpu": "4", "memory": "1Gi"}
    container = {"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}
    annotations = {"scheduling.k8s.io/group-name": "g", "volcano.sh/numa-topology-policy": "single-numa-node"}
    await cluster.make(PODS, name, {"schedulerName": "volcano", "containers": [container]}, annotations=annotations)


async def test_a_bound_pod_gets_its_topology_decision_and_another_waits_for_free_numa_cpus(cluster, tmp_path):
    for crd in crds.custom_resource_definitions():
        if crd["metadata"]["name"].startswith("numatopologies."):
            await cluster.client.create(CRDS, crd)
    await cluster.node("n", cpu="8")
    await cluster.client.create(NUMATOPOLOGIES, body({0: 3, 1: 4}, "single-numa-node"))
    await cluster.gang("g", 0, minimum=1)
    await pod(cluster, "a")
    path = tmp_path / "scheduler.yaml"
    path.write_text(CONFIGURATION)

    async def is_bound(name):
        found = await cluster.client.get(PODS, Key("default", name))
        return found if found["spec"].get("nodeName") else None

    async def waits(name):
        found = await cluster.client.get(PODS, Key("default", name))
        return [each["message"] for each in found["status"].get("conditions", []) if "by numa" in each.get("message", "")]

    async with cluster.scheduler(**{"scheduler-conf": str(path)}):
        bound = await cluster.until(lambda: is_bound("a"))
        decision = bound["metadata"]["annotations"]["volcano.sh/topology-decision"]
        assert json.loads(decision) == {"numa": {"1": {"cpu": "4"}}}
        await pod(cluster, "b")
        (why,) = await cluster.until(lambda: waits("b"))
        assert why.startswith("0/1 nodes are unavailable: 1 container c cannot be assigned by numa.")
        shown = body({0: 4, 1: 0}, "single-numa-node")["spec"]
        shown["podAllocations"] = [
            {"uid": bound["metadata"]["uid"], "containerAllocations": [{"name": "c", "allocations": {"cpu": "4-7"}}]}
        ]
        current = await cluster.client.get(NUMATOPOLOGIES, Key("", "n"))
        await cluster.client.update(NUMATOPOLOGIES, {**current, "spec": shown})
        bound = await cluster.until(lambda: is_bound("b"))
        decision = bound["metadata"]["annotations"]["volcano.sh/topology-decision"]
        assert json.loads(decision) == {"numa": {"0": {"cpu": "4"}}}
