"""What others do to the objects of a Job: it is waited for without asking again and again, and put right where it can be."""

import asyncio

import pytest

from pyroclast.api import keys
from pyroclast.api.types import CONFIG_MAPS, JOBS, POD_GROUPS, PODS, QUEUES, RESOURCE_QUOTAS, SERVICES, VALIDATING_WEBHOOKS, Key
from pyroclast.kube.basics.errors import Forbidden
from pyroclast.kube.http.batches import slow_start
from pyroclast.kube.http.client import PatchKind
from pyroclast.kube.lease.shards import Shards
from pyroclast.resources.backoff import Backoff
from pyroclast_job_controller.blocked import NamespaceTerminating
from pyroclast_job_controller.job import controller as jobs
from pyroclast_job_controller.job import memory
from pyroclast_job_controller.job.pod_actions import PodActions

from .cluster import NS, task
from .test_controller import command, told

HOLD = {"metadata": {"finalizers": ["example.com/hold"]}}


async def test_podgroup_held_by_a_finalizer_is_reported_and_recreated_after_its_removal(cluster):
    await cluster.running("j", task(replicas=2))
    group = Key(NS, (await cluster.names(POD_GROUPS))[0])
    await cluster.client.patch(POD_GROUPS, group, HOLD, PatchKind.MERGE)
    cluster.server.forget_requests()
    await command(cluster, "RestartJob")
    text = f"PodGroupPending: PodGroup {group} is being deleted and waits for its finalizers: example.com/hold"

    async def waits():
        return text in await told(cluster) and not await cluster.names(PODS)

    await cluster.until(waits)
    requests = cluster.server.requests()
    assert (requests["create", "podgroups"], requests["delete", "podgroups"]) == (0, 1)
    await cluster.client.patch(POD_GROUPS, group, {"metadata": {"finalizers": None}}, PatchKind.MERGE)
    await cluster.reaches("j", "Running")
    assert cluster.server.requests()["create", "podgroups"] == 1


async def test_a_pod_that_lost_its_labels_gets_them_back(cluster):
    await cluster.running("j", task(replicas=2))
    key = Key(NS, "j-a-0")
    before = (await cluster.client.get(PODS, key))["metadata"]
    cluster.server.forget_requests()
    await cluster.client.patch(PODS, key, {"metadata": {"labels": None}}, PatchKind.MERGE)

    async def labelled():
        return (await cluster.client.get(PODS, key))["metadata"].get("labels") == before["labels"]

    await cluster.until(labelled)
    cluster.holding.clear()
    await cluster.reaches("j", "Completed")
    assert (await cluster.client.get(PODS, key))["metadata"]["uid"] == before["uid"]
    assert cluster.server.requests()["create", "pods"] == 0


@pytest.mark.parametrize("watched", [True, False])
async def test_removing_a_pod_label_does_not_count_as_eviction_but_deleting_the_pod_does(cluster, watched):
    await cluster.running("j", task(replicas=2), policies=[{"event": "PodEvicted", "action": "TerminateJob"}])
    await cluster.until(lambda: counted(cluster, running=2))
    if not watched:
        await cluster.kill()
    await cluster.client.patch(PODS, Key(NS, "j-a-0"), {"metadata": {"labels": {keys.JOB_NAME: None}}}, PatchKind.MERGE)
    if not watched:
        await cluster.start()

    async def labelled():
        return (await cluster.client.get(PODS, Key(NS, "j-a-0")))["metadata"]["labels"].get(keys.JOB_NAME) == "j"

    await cluster.until(labelled)
    await cluster.client.delete(PODS, Key(NS, "j-a-0"))  # and this is one
    await cluster.reaches("j", "Terminated")
    state = (await cluster.client.get(JOBS, Key(NS, "j")))["status"]["state"]
    assert state["message"].startswith("pod j-a-0 of task a was deleted: TerminateJob by policy")


async def counted(cluster, **want):
    status = (await cluster.client.get(JOBS, Key(NS, "j"))).get("status", {})
    return {name: status.get(name, 0) for name in want} == want


async def test_forbidden_status_write_is_reported_and_retried_rarely(cluster, monkeypatch):
    client, asked, closed = cluster.controller_client, [], True
    patch = client.patch

    async def forbidden(kind, key, body, how, **more):
        if closed and kind == JOBS and more.get("subresource") == "status":
            asked.append(key)
            raise Forbidden(403, "Forbidden", 'jobs "j" is forbidden')
        return await patch(kind, key, body, how, **more)

    monkeypatch.setattr(client, "patch", forbidden)
    await cluster.job("j")
    await cluster.until(lambda: says(cluster, 'JobStatusError: Failed to update job, err: jobs "j" is forbidden'))
    await asyncio.sleep(1)
    assert len(asked) <= 6
    closed = False
    await cluster.reaches("j", "Running")


async def says(cluster, words, name="j"):
    return any(words in line for line in await told(cluster, name))


async def test_orphaned_pods_are_reported_and_their_podgroup_is_deleted_after_them(cluster):
    await cluster.running("j", task(replicas=2))
    (old,) = await cluster.names(POD_GROUPS)
    await cluster.client.delete(JOBS, Key(NS, "j"), propagation="Orphan")
    await cluster.until(lambda: is_empty(cluster, JOBS))
    for name in ("j-a-0", "j-a-1"):  # what the garbage collector does
        await cluster.client.patch(PODS, Key(NS, name), {"metadata": {"ownerReferences": None}}, PatchKind.MERGE)
    await cluster.client.patch(POD_GROUPS, Key(NS, old), {"metadata": {"ownerReferences": None}}, PatchKind.MERGE)
    await cluster.kill()
    await cluster.start(max_requeue_num=0)
    await cluster.job("j", task(replicas=2))
    await cluster.until(lambda: says(cluster, "was left behind by a Job of this name that was deleted without its pods"))

    async def explained():
        state = (await cluster.client.get(JOBS, Key(NS, "j")))["status"]["state"]
        return (state["phase"], state.get("reason")) == ("Pending", "NotEnoughPods") and "was left behind" in state["message"]

    await cluster.until(explained)
    assert old in await cluster.names(POD_GROUPS)  # its pods run
    for name in ("j-a-0", "j-a-1"):
        await cluster.client.delete(PODS, Key(NS, name))
    await cluster.reaches("j", "Running")

    async def gone():
        return old not in await cluster.names(POD_GROUPS)

    await cluster.until(gone)
    assert not (await cluster.client.get(JOBS, Key(NS, "j")))["status"]["state"].get("message", "").startswith("waits")


async def is_empty(cluster, kind):
    return await cluster.names(kind) == []


async def test_tasks_without_names_get_the_default_names_of_admission(cluster):
    rows = [{key: value for key, value in task(replicas=1).items() if key != "name"} for _ in range(2)]
    await cluster.running("j", *rows)
    assert await cluster.names(PODS) == ["j-default0-0", "j-default1-0"]
    cluster.holding.clear()
    await cluster.reaches("j", "Completed")


async def test_gang_partly_refused_by_a_quota_deletes_its_pods_and_runs_once_the_quota_is_raised(cluster, monkeypatch):
    monkeypatch.setattr(memory, "HALF_GANG", 0.5)
    await cluster.kill()
    await cluster.start(max_requeue_num=0)
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": NS}}
    await cluster.client.create(RESOURCE_QUOTAS, {**quota, "spec": {"hard": {"pods": "3"}}})
    await asyncio.sleep(0.3)
    cluster.idle = True
    await cluster.job("j", task(replicas=4), policies=[{"event": "PodEvicted", "action": "TerminateJob"}])
    await cluster.until(lambda: has_pods(cluster, 3))
    await cluster.until(lambda: has_pods(cluster, 0))
    state = (await cluster.client.get(JOBS, Key(NS, "j")))["status"]["state"]
    assert (state["phase"], state["reason"]) == ("Pending", "NotEnoughPods")
    assert "exceeded quota: q" in state["message"]
    assert await says(cluster, "exceeded quota: q")
    await cluster.client.patch(RESOURCE_QUOTAS, Key(NS, "q"), {"spec": {"hard": {"pods": "9"}}}, PatchKind.MERGE)
    cluster.idle = False
    await cluster.reaches("j", "Running")


async def test_a_priority_class_that_is_missing_is_named_and_holds_up_no_other_task(cluster):
    bad = task("a", 20, minAvailable=0)
    bad["template"]["spec"]["priorityClassName"] = "nope"
    await cluster.job("j", bad, task("b", 2), minAvailable=2)
    text = 'Error creating pods: [pods "j-a-0" is forbidden: no PriorityClass with name nope was found]'

    await cluster.reaches("j", "Running")

    async def said():
        status = (await cluster.client.get(JOBS, Key(NS, "j")))["status"]
        message = f"2 of the 2 pods needed have started; waits: {text}"
        return (status["state"]["phase"], status["state"].get("message"), status.get("running")) == ("Running", message, 2)

    await cluster.until(said)
    await asyncio.sleep(1)
    assert [line for line in await told(cluster) if "nope" in line] == [f"FailedCreate: {text}"]
    assert await cluster.names(PODS) == ["j-b-0", "j-b-1"]


async def has_pods(cluster, number):
    return len(await cluster.names(PODS)) == number


async def test_closed_queue_is_named_in_the_job_status_until_it_opens(cluster):
    cluster.admitting = False
    await cluster.client.create(
        QUEUES, {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": "q"}, "spec": {}}
    )
    await cluster.job("j", queue="q")
    await cluster.reaches("j", "Pending")
    await command(cluster, "CloseQueue", QUEUES, "q")
    text = "QueueClosed: queue q is Clos"

    async def named():
        state = (await cluster.client.get(JOBS, Key(NS, "j")))["status"]["state"]
        return state.get("reason") == "NotEnoughPods" and f"waits: {text}" in state["message"]

    await cluster.until(named)
    assert await says(cluster, f"PodGroupPending: {text}")
    await command(cluster, "OpenQueue", QUEUES, "q")

    async def unnamed():
        return "message" not in (await cluster.client.get(JOBS, Key(NS, "j")))["status"]["state"]

    await cluster.until(unnamed)


async def test_job_in_a_terminating_namespace_is_not_retried_when_it_changes(cluster, monkeypatch):
    asked = []

    async def closed(self, job, effect, *_, **__):
        asked.append(job.metadata.name)
        raise NamespaceTerminating

    monkeypatch.setattr(jobs, "_NAMESPACE_PAUSES", Backoff(1000.0, 1000.0))
    monkeypatch.setattr(PodActions, "carry_out", closed)
    await cluster.job("j", task(replicas=2))
    await cluster.until(lambda: asyncio.sleep(0, asked))
    for number in range(3):
        mark = {"metadata": {"annotations": {"poke": str(number)}}}
        await cluster.client.patch(JOBS, Key(NS, "j"), mark, PatchKind.MERGE)
        await cluster.job(f"k{number}")
        await cluster.until(lambda name=f"k{number}": asyncio.sleep(0, name in asked))
    assert asked == ["j", "k0", "k1", "k2"]


async def test_slow_start_with_a_first_batch_of_one_stops_after_one_refused_action():
    tried = []

    async def action(number):
        tried.append(number)
        raise Forbidden(403, "Forbidden", "exceeded quota")

    assert len(await slow_start(range(10), action, first=1)) == 1
    assert tried == [0]


@pytest.mark.parametrize("kind", [CONFIG_MAPS, SERVICES])
async def test_plugin_objects_of_an_earlier_job_of_the_same_name_are_replaced(cluster, kind):
    name = {CONFIG_MAPS: "j-svc", SERVICES: "j"}[kind]
    owner = {"apiVersion": JOBS.api_version, "kind": "Job", "name": "j", "uid": "before", "controller": True}
    meta = {"name": name, "namespace": NS, "ownerReferences": [owner], "finalizers": ["example.com/hold"]}
    spec = {"spec": {"ports": [{"port": 80}]}} if kind is SERVICES else {}
    await cluster.client.create(kind, {"apiVersion": "v1", "kind": kind.kind, "metadata": meta, **spec})
    await cluster.job("j", plugins={"svc": []})

    async def going():
        return "deletionTimestamp" in (await cluster.client.get(kind, Key(NS, name)))["metadata"]

    await cluster.until(going)
    await cluster.client.patch(kind, Key(NS, name), {"metadata": {"finalizers": None}}, PatchKind.MERGE)
    await cluster.reaches("j", "Running")
    job = await cluster.client.get(JOBS, Key(NS, "j"))
    owners = (await cluster.client.get(kind, Key(NS, name)))["metadata"]["ownerReferences"]
    assert [each["uid"] for each in owners] == [job["metadata"]["uid"]]
    assert not [line for line in await told(cluster) if line.startswith("PluginError")]


async def test_pod_deleted_during_a_shard_handover_triggers_the_eviction_policy_later(cluster):
    await cluster.kill()
    await cluster.start(leader_elect_shards=2)
    await cluster.running("j", task(replicas=2), policies=[{"event": "PodEvicted", "action": "RestartJob"}])

    async def is_counted(retries=0):
        status = (await cluster.client.get(JOBS, Key(NS, "j")))["status"]
        return (status.get("running"), status.get("retryCount", 0), status["state"]["phase"]) == (2, retries, "Running")

    await cluster.until(is_counted)
    shard = Shards(2).shard_of(Key(NS, "j"))
    await cluster.give(shard)
    await cluster.client.delete(PODS, Key(NS, "j-a-1"))
    await asyncio.sleep(0.3)  # a stranger to the shard does not touch it
    assert await cluster.names(PODS) == ["j-a-0"]
    cluster.shards[shard] = cluster.take(shard)
    await cluster.until(lambda: is_counted(1))


async def test_unreachable_webhook_is_reported_and_the_job_runs_after_the_webhook_is_deleted(cluster, monkeypatch):
    await cluster.kill()
    await cluster.start(max_requeue_num=0)
    monkeypatch.setattr(cluster.controller_client._caller, "_max_attempts", 1)
    hook = {
        "name": "third.example.com",
        "clientConfig": {"url": "https://127.0.0.1:9/pods"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    body = {
        "apiVersion": VALIDATING_WEBHOOKS.api_version,
        "kind": VALIDATING_WEBHOOKS.kind,
        "metadata": {"name": "third"},
        "webhooks": [hook],
    }
    await cluster.client.create(VALIDATING_WEBHOOKS, body)
    await cluster.job("j", task(replicas=2))

    async def named():
        return any("failed calling webhook" in line for line in await told(cluster) if line.startswith("FailedCreate: "))

    await cluster.until(named)
    await cluster.client.delete(VALIDATING_WEBHOOKS, Key("", "third"))
    await cluster.reaches("j", "Running")
