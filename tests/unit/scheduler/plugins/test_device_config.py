"""Plugin deviceshare in the service: its ConfigMap is watched by name, and a node is locked before a bind."""

import json

from pyroclast.api.types import CONFIG_MAPS, NAMESPACES, NODES, PODS, Key
from pyroclast.kube.http.client import PatchKind

CONFIGURATION = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: deviceshare
    arguments:
      deviceshare.VGPUEnable: true
      deviceshare.NodeLockEnable: true
      deviceshare.KnownGeometriesCMName: cards
      deviceshare.KnownGeometriesCMNamespace: gpu
"""
KNOWN = {
    "models": ["A30"],
    "allowedGeometries": [{"group": "g", "geometries": [{"name": "2g.12gb", "memory": 12288, "count": 2}]}],
}


def config_map(name, known):
    data = {"device-config.yaml": json.dumps({"nvidia": {"knownMigGeometries": known}})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "gpu", "name": name}, "data": data}


async def node_with_cards(cluster):
    await cluster.node("n1")
    resources = {"volcano.sh/vgpu-number": "4", "volcano.sh/vgpu-memory": "36864", "volcano.sh/vgpu-cores": "100"}
    status = {"status": {"allocatable": resources, "capacity": resources}}
    await cluster.client.patch(NODES, Key("", "n1"), status, PatchKind.MERGE, subresource="status")
    annotations = {"volcano.sh/node-vgpu-register": "a,4,36864,NVIDIA-A30,true,mig:"}
    await cluster.client.patch(NODES, Key("", "n1"), {"metadata": {"annotations": annotations}}, PatchKind.MERGE)


async def pod(cluster, name):
    limits = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "5000"}
    container = {"name": "c", "image": "i", "resources": {"limits": limits, "requests": limits}}
    spec = {"schedulerName": "volcano", "containers": [container]}
    await cluster.make(PODS, name, spec, annotations={"scheduling.k8s.io/group-name": "g"})


async def test_the_config_map_sets_the_mig_geometry_and_the_node_lock_serialises_binds(cluster, tmp_path):
    file = tmp_path / "scheduler.conf"
    file.write_text(CONFIGURATION)
    await cluster.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpu"}})
    await cluster.client.create(CONFIG_MAPS, config_map("cards", [KNOWN]), namespace="gpu")
    await cluster.client.create(CONFIG_MAPS, config_map("others", []), namespace="gpu")
    await node_with_cards(cluster)
    await cluster.gang("g", 0, minimum=1)

    async def told():
        pods, _ = await cluster.client.list(PODS)
        return sorted(each["metadata"]["annotations"].get("volcano.sh/vgpu-ids-new", "") for each in pods)

    async def lock():
        node = await cluster.client.get(NODES, Key("", "n1"))
        return node["metadata"]["annotations"].get("hamivgpu")

    async def release():
        await cluster.client.patch(NODES, Key("", "n1"), {"metadata": {"annotations": {"hamivgpu": None}}}, PatchKind.MERGE)

    async with cluster.scheduler(**{"scheduler-conf": str(file)}):
        await pod(cluster, "p1")

        async def first():
            return await told() == ["a[g-0],NVIDIA,12288,0:"]

        await cluster.until(first)
        assert await lock() is not None
        await pod(cluster, "p2")
        await pod(cluster, "p3")
        await release()

        async def both():
            return await told() == ["", "a[g-0],NVIDIA,12288,0:", "a[g-1],NVIDIA,12288,0:"]

        await cluster.until(both)
        wider = {**KNOWN["allowedGeometries"][0], "geometries": [{"name": "1g.6gb", "memory": 12288, "count": 3}]}
        changed = config_map("cards", [{**KNOWN, "allowedGeometries": [wider]}])
        await cluster.client.patch(CONFIG_MAPS, Key("gpu", "cards"), {"data": changed["data"]}, PatchKind.MERGE)
        await release()

        async def all_three():
            return "" not in await told()

        await cluster.until(all_three)
        assert [each.partition(",")[0] for each in await told()] == ["a[g-0]", "a[g-1]", "a[g-2]"]
