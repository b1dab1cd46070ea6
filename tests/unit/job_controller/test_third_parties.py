"""What others who write Jobs and pods rely on, and what they do that users of our command line do not."""

import asyncio
from typing import Any

import pytest

from pyroclast.api.types import COMMANDS, JOBS, POD_GROUPS, PODS, Key
from pyroclast.kube.http.client import PatchKind

from .cluster import NS, authorized, task
from .memory_cluster import MemoryCluster, virtual_cluster

J = Key(NS, "j")


def statuses(cluster: MemoryCluster) -> list[dict[str, Any]]:
    """Every status of a Job that is ever written, as it comes."""
    written: list[dict[str, Any]] = []

    def on_write(_: str, kind: str, item: dict[str, Any]) -> None:
        if kind == JOBS.qualified and "status" in item:
            written.append(item["status"])

    cluster.server.on_write = on_write
    return written


async def job_that_runs(cluster: MemoryCluster) -> None:
    evicted = [{"events": ["PodEvicted", "PodFailed"], "action": "RestartJob"}]
    await cluster.running("j", task(replicas=2), policies=evicted)


def put_aborted(cluster: MemoryCluster) -> None:
    """What TorchX sends: the status as it was read, with another phase."""
    cluster.server.patch(JOBS, J, {"status": {"state": {"phase": "Aborted"}}}, PatchKind.MERGE, "status")


def resume(cluster: MemoryCluster) -> None:
    uid = cluster.server.of(JOBS)[J]["metadata"]["uid"]
    target = {"apiVersion": JOBS.api_version, "kind": "Job", "name": "j", "uid": uid}
    cluster.server.create(COMMANDS, authorized("ResumeJob", target, name="resume"))


@virtual_cluster()
async def test_every_job_status_has_a_phase_and_no_empty_task_status_count(cluster: MemoryCluster) -> None:
    written = statuses(cluster)
    await job_that_runs(cluster)
    cluster.run_pods("Succeeded")
    await cluster.until(lambda: cluster.phase("j") == "Completed")
    for pod in cluster.pods():
        cluster.server.delete(PODS, Key(NS, pod["metadata"]["name"]), grace=0)
    await asyncio.sleep(60)
    phases = [status["state"]["phase"] for status in written]
    assert phases[0] == "Pending"
    assert all(phases)
    counts = [each["phase"] for status in written for each in (status.get("taskStatusCount") or {}).values()]
    assert counts
    assert all(counts)


@virtual_cluster()
async def test_phase_aborted_written_by_a_client_aborts_the_job_until_it_is_resumed(cluster: MemoryCluster) -> None:
    await job_that_runs(cluster)
    written = statuses(cluster)
    cluster.set_phase(cluster.pods()[0], "Succeeded")  # a change whose write may still wait for its turn
    put_aborted(cluster)
    await cluster.until(lambda: all("deletionTimestamp" in pod["metadata"] for pod in cluster.pods()[1:]))
    cluster.drain()
    await asyncio.sleep(120)
    assert {status["state"]["phase"] for status in written} - {"Running"} == {"Aborted"}
    assert [status["state"]["phase"] for status in written][-1] == "Aborted"
    assert [pod["status"]["phase"] for pod in cluster.pods()] == ["Succeeded"]
    assert not cluster.server.of(POD_GROUPS)
    status = cluster.status("j")
    assert (status.get("running", 0), status["succeeded"]) == (0, 1)
    assert status["conditions"][-1]["status"] == "Aborted"
    resume(cluster)
    await cluster.until(lambda: cluster.server.of(POD_GROUPS))
    cluster.admit()
    await cluster.until(lambda: len(cluster.pods()) == 2)
    assert sorted(pod["status"]["phase"] for pod in cluster.pods()) == ["Pending", "Succeeded"]  # what has ended is kept
    cluster.run_pods()
    await cluster.until(lambda: cluster.phase("j") == "Running")


@pytest.mark.parametrize("seconds", [0.0, 0.001, 0.003, 0.01, 0.05, 0.5])
@virtual_cluster()
async def test_pending_status_write_does_not_overwrite_a_phase_aborted_written_by_a_client(
    cluster: MemoryCluster, seconds: float
) -> None:
    await job_that_runs(cluster)
    cluster.set_phase(cluster.pods()[0], "Succeeded")
    await asyncio.sleep(seconds)
    put_aborted(cluster)
    written = statuses(cluster)
    await cluster.until(lambda: all("deletionTimestamp" in pod["metadata"] for pod in cluster.pods()[1:]))
    cluster.drain()
    await asyncio.sleep(120)
    assert {status["state"]["phase"] for status in written} == {"Aborted"}
    assert cluster.phase("j") == "Aborted"


def workflow_pod(cluster: MemoryCluster, name: str, queue: str) -> None:
    """A pod of a kind of owner that we do not know."""
    owner = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "w", "uid": "w-uid", "controller": True}
    annotations = {"scheduling.volcano.sh/queue-name": queue} if queue else {}
    meta = {"name": name, "namespace": NS, "ownerReferences": [owner], "annotations": annotations}
    spec = {"schedulerName": "volcano", "containers": [{"name": "c", "image": "busybox"}]}
    cluster.server.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})


def is_grouped(cluster: MemoryCluster, name: str) -> bool:
    return "scheduling.k8s.io/group-name" in (cluster.server.of(PODS)[Key(NS, name)]["metadata"].get("annotations") or {})


@virtual_cluster()
async def test_pod_with_another_queue_than_the_shared_podgroup_gets_a_warning_event(
    cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []
    monkeypatch.setattr(cluster.replica.shared.recorder, "event", lambda *event: told.append(event))
    for name, queue in (("first", "blue"), ("same", "blue"), ("none", ""), ("other", "red")):
        workflow_pod(cluster, name, queue)
        await cluster.until(lambda name=name: is_grouped(cluster, name))  # type: ignore[misc]
    (group,) = cluster.server.of(POD_GROUPS).values()
    assert group["spec"]["queue"] == "blue"
    ((about, *words),) = told
    assert (about.kind, about.name) == ("Pod", "other")
    assert words[:2] == ["Warning", "QueueNotTaken"]
    assert words[2].startswith(
        'queue "red" is not taken: pods of one owner share PodGroup podgroup-w-uid, which waits in queue "blue"'
    )
