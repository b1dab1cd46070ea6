"""Jobs of one pod without a PodGroup: the pod describes its group."""

import msgspec
import pytest

from pyroclast.api import keys
from pyroclast.api.pod_groups_on_pods import group_of
from pyroclast.api.records import Pod
from pyroclast.api.types import JOBS, NAMESPACES, POD_GROUPS, PODS, QUEUES, Key
from pyroclast.kube.http.client import PatchKind

from .cluster import NS, task
from .memory_cluster import key_of, virtual_cluster

alone = virtual_cluster(one_pod_without_group=True)


def described(cluster):
    (pod,) = cluster.pods()
    return group_of(msgspec.convert(pod, Pod))


async def made(cluster, *tasks, **spec):
    cluster.job("j", *tasks, **spec)
    await cluster.until(cluster.pods)


def say(cluster, message):
    (pod,) = cluster.pods()
    waits = {"type": "pyroclast.dev/Queued", "status": "True", "reason": "QueueFull", "message": message}
    cluster.server.patch(PODS, key_of(pod), {"status": {"conditions": [waits]}}, PatchKind.MERGE, "status")


@alone
async def test_job_of_one_pod_costs_its_pod_and_one_status_until_it_runs(cluster):
    await made(cluster)
    cluster.run_pods()
    await cluster.until(lambda: cluster.phase("j") == "Running")
    assert [each["status"] for each in cluster.status("j")["conditions"]] == ["Pending", "Running"]
    assert cluster.server.of(POD_GROUPS) == {}
    writes = {kind: number for (verb, kind), number in cluster.server.writes.items() if number and kind != QUEUES.qualified}
    assert (cluster.server.writes["create", PODS.qualified], cluster.server.writes["patch", JOBS.qualified]) == (1, 1), writes


@alone
async def test_pod_has_what_its_podgroup_would_contain(cluster):
    template = {"metadata": {"annotations": {keys.POD_GROUP: "{}"}}, **task()["template"]}
    await made(cluster, task(template=template), priorityClassName="high")
    group = described(cluster)
    assert (group.spec.queue, group.spec.min_member, group.spec.priority_class_name) == ("default", 1, "high")
    assert group.spec.min_resources["pods"] == "1"
    assert group.metadata.controller.name == "j"


@alone
async def test_why_the_pod_is_not_placed_stands_on_the_job(cluster):
    await made(cluster)
    say(cluster, "0/1 nodes are unavailable QueueFull: queue default is full")
    await cluster.until(lambda: cluster.phase("j") == "Pending")
    status = cluster.status("j")
    assert status["state"]["message"] == "waits: QueueFull: queue default is full"
    assert status["waiting"]["code"] == "QueueFull"


@pytest.mark.parametrize(
    ("tasks", "spec"),
    [
        pytest.param([task("a", 2)], {}, id="two pods"),
        pytest.param([task("a", 1), task("b", 1)], {}, id="two tasks"),
        pytest.param([task("a", 1, minAvailable=0)], {"minAvailable": 0}, id="no minimum"),
        pytest.param([task("a", 1)], {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}, id="topology"),
    ],
)
@alone
async def test_other_jobs_have_a_podgroup(cluster, tasks, spec):
    cluster.job("j", *tasks, **spec)
    await cluster.until(lambda: cluster.server.of(POD_GROUPS))
    assert cluster.pods() == []


@alone
async def test_job_in_a_namespace_with_a_queue_of_its_own_has_a_podgroup(cluster):
    meta = {"name": NS, "annotations": {keys.SCHEDULING_QUEUE_NAME: "team"}}
    cluster.server.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    cluster.job("j")
    await cluster.until(lambda: cluster.server.of(POD_GROUPS))


@alone
async def test_job_that_grows_gets_its_podgroup_then(cluster):
    await made(cluster)
    patch = {"spec": {"minAvailable": 2, "tasks": [task("a", 2)]}}
    cluster.server.patch(JOBS, Key(NS, "j"), patch, PatchKind.MERGE)
    await cluster.until(lambda: cluster.server.of(POD_GROUPS))
    (group,) = cluster.server.of(POD_GROUPS).values()
    assert group["spec"]["minMember"] == 2
    await cluster.until(lambda: described(cluster) is None)
    cluster.admit()
    await cluster.until(lambda: len(cluster.pods()) == 2)
    assert all(keys.POD_GROUP not in pod["metadata"]["labels"] for pod in cluster.pods())


@alone
async def test_priority_of_a_waiting_job_is_changed_on_its_pod(cluster):
    await made(cluster)
    cluster.server.patch(JOBS, Key(NS, "j"), {"spec": {"priorityClassName": "low"}}, PatchKind.MERGE)
    await cluster.until(lambda: described(cluster).spec.priority_class_name == "low")


@alone
async def test_job_gets_a_podgroup_once_the_setting_is_off(cluster):
    await made(cluster)
    await cluster.replica.kill()
    cluster._settings.clear()
    await cluster.start_controller()
    await cluster.until(lambda: cluster.server.of(POD_GROUPS))


@alone
async def test_suspended_job_loses_its_pod_and_gets_it_again(cluster):
    await made(cluster)
    cluster.server.patch(JOBS, Key(NS, "j"), {"spec": {"suspend": True}}, PatchKind.MERGE)
    await cluster.until(lambda: cluster.drain() or not cluster.pods())
    cluster.server.patch(JOBS, Key(NS, "j"), {"spec": {"suspend": False}}, PatchKind.MERGE)
    await cluster.until(cluster.pods)
    assert cluster.server.of(POD_GROUPS) == {}


@alone
async def test_finished_job_keeps_its_pod_and_needs_no_group_to_be_deleted(cluster):
    await made(cluster)
    cluster.run_pods()
    await cluster.until(lambda: cluster.phase("j") == "Running")
    cluster.run_pods("Succeeded")
    await cluster.until(lambda: cluster.phase("j") == "Completed")
    assert described(cluster) is None
