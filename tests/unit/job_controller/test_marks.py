"""Pods that a restart is about are marked first; nothing keeps that from happening, or makes it seem to have happened."""

from __future__ import annotations

from typing import Any

from pyroclast.api.types import Key, ResourceType
from pyroclast.kube.basics.errors import Conflict
from pyroclast.kube.http.client import PatchKind
from pyroclast.lifecycle.effects import DeletePods, Victim
from pyroclast.runtime.in_process.creation import pods_checked
from pyroclast.runtime.reconciler import Pace
from pyroclast_job_controller.job.memory import JobMemory
from pyroclast_job_controller.job.pod_actions import PodActions

from .cluster import NS, task
from .memory_cluster import MemoryCluster, virtual_cluster


@virtual_cluster()
async def test_pod_is_restarted_although_patching_its_mark_hits_a_conflict(cluster: MemoryCluster) -> None:
    await cluster.running("j", task("a", replicas=2), policies=[{"event": "PodFailed", "action": "RestartTask"}])
    failed, healthy = cluster.pods()
    patch, conflicts = cluster.replica.client.patch, [0]

    async def contended(kind: ResourceType, key: Key, body: Any, how: PatchKind, **more: Any) -> Any:
        if key.name == healthy["metadata"]["name"] and not conflicts[0]:
            conflicts[0] += 1
            raise Conflict(409, "Conflict", "the object has been modified")
        return await patch(kind, key, body, how, **more)

    cluster.replica.client.patch = contended  # type: ignore[method-assign]
    cluster.set_phase(failed, "Failed", 1)

    def is_made_anew() -> bool:
        cluster.drain()
        pods = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in cluster.pods()}
        return len(pods) == 2 and healthy["metadata"]["uid"] not in pods.values()

    await cluster.until(is_made_anew)
    cluster.run_pods()
    await cluster.until(lambda: cluster.phase("j") == "Running")
    assert (conflicts[0], cluster.phase("j")) == (1, "Running")


@virtual_cluster()
async def test_deletion_of_a_pod_that_no_longer_exists_is_not_remembered(cluster: MemoryCluster) -> None:
    await cluster.running("j", task("a", replicas=2))
    shared = cluster.replica.shared
    job = shared.caches.jobs.get(Key(NS, "j"))
    assert job is not None
    memory = JobMemory(job.metadata.uid, Pace(shared.clock))
    there = cluster.pods()[0]["metadata"]
    victims = (Victim("j-a-0", "gone-before"), Victim(there["name"], there["uid"]))
    creator = pods_checked(shared.client, (), (), ())
    actions = PodActions(shared.client, creator, shared.caches.pods, lambda _: None, lambda _: None)
    await actions.carry_out(job, DeletePods(victims), memory, forwarding=False)
    remembered, want = memory.deleted, {there["uid"]}
    assert remembered == want
