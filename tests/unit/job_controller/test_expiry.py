"""Jobs with `ttlSecondsAfterFinished` that belong to a flow go when the flow, whose controller may be down, knows their end."""

import asyncio

from pyroclast.api.types import JOB_FLOWS, JOBS, Key
from pyroclast.kube.http.client import PatchKind

from .cluster import NS
from .memory_cluster import MemoryCluster, virtual_cluster


def make_flow(cluster: MemoryCluster) -> str:
    body = {"apiVersion": JOB_FLOWS.api_version, "kind": "JobFlow", "metadata": {"name": "f", "namespace": NS}, "spec": {}}
    return str(cluster.server.create(JOB_FLOWS, body)["metadata"]["uid"])


def tell(cluster: MemoryCluster, **status: object) -> None:
    cluster.server.patch(JOB_FLOWS, Key(NS, "f"), {"status": status}, PatchKind.MERGE, "status")


async def finish(cluster: MemoryCluster, owner: str) -> None:
    """A Job of the flow that has completed."""
    cluster.job("f-a", ttlSecondsAfterFinished=1)
    owners = [{"apiVersion": JOB_FLOWS.api_version, "kind": "JobFlow", "name": "f", "uid": owner, "controller": True}]
    cluster.server.patch(JOBS, Key(NS, "f-a"), {"metadata": {"ownerReferences": owners}}, PatchKind.MERGE)
    await cluster.until(lambda: cluster.admit() or cluster.pods())
    cluster.run_pods()
    cluster.run_pods("Succeeded")
    await cluster.until(lambda: cluster.phase("f-a") == "Completed")


def is_there(cluster: MemoryCluster) -> bool:
    job = cluster.server.of(JOBS).get(Key(NS, "f-a"))
    return job is not None and "deletionTimestamp" not in job["metadata"]


@virtual_cluster()
async def test_expired_job_is_deleted_only_after_its_jobflow_has_recorded_its_completion(cluster: MemoryCluster):
    await finish(cluster, make_flow(cluster))
    tell(cluster, jobStatusList=[{"name": "f-a", "state": "Running"}])
    await asyncio.sleep(60)
    assert is_there(cluster)
    tell(cluster, jobStatusList=[{"name": "f-a", "state": "Completed"}])
    await cluster.until(lambda: not is_there(cluster), within=10)


@virtual_cluster()
async def test_expired_job_of_a_missing_jobflow_is_deleted_at_once(cluster: MemoryCluster):
    await finish(cluster, "another")
    await cluster.until(lambda: not is_there(cluster), within=5)


@virtual_cluster()
async def test_raised_ttl_delays_the_deletion_although_the_watch_did_not_deliver_it(cluster: MemoryCluster):
    cluster.job("f-a", ttlSecondsAfterFinished=30)
    await cluster.until(lambda: cluster.admit() or cluster.pods())
    cluster.run_pods()
    cluster.run_pods("Succeeded")
    await cluster.until(lambda: cluster.phase("f-a") == "Completed")
    await asyncio.sleep(20)
    cluster.server.watchers.clear()  # nothing comes any more, and nobody notices
    cluster.server.patch(JOBS, Key(NS, "f-a"), {"spec": {"ttlSecondsAfterFinished": 50}}, PatchKind.MERGE)
    await asyncio.sleep(20)
    assert is_there(cluster)
    await cluster.until(lambda: not is_there(cluster), within=15)


@virtual_cluster()
async def test_jobflow_is_read_at_most_5_times_for_30_jobs_that_expire_together(cluster: MemoryCluster):
    uid = make_flow(cluster)
    names = [f"f-{number}" for number in range(30)]
    tell(cluster, jobStatusList=[{"name": name, "state": "Completed"} for name in names])
    owners = [{"apiVersion": JOB_FLOWS.api_version, "kind": "JobFlow", "name": "f", "uid": uid, "controller": True}]
    for name in names:
        cluster.job(name, ttlSecondsAfterFinished=1)
        cluster.server.patch(JOBS, Key(NS, name), {"metadata": {"ownerReferences": owners}}, PatchKind.MERGE)

    def ended() -> bool:
        cluster.admit()
        cluster.run_pods()
        cluster.run_pods("Succeeded")
        return not any(key.name in names for key in cluster.server.of(JOBS))

    await cluster.until(ended, within=60)
    assert int(cluster.server.reads["get", JOB_FLOWS.qualified]) <= 5
