"""What others do to the objects of a Job: it is waited for without asking again and again, and put right where it can be."""

import asyncio

import pytest

from pyroclast.api.types import CONFIG_MAPS, JOBS, POD_GROUPS, PODS, SERVICES, VALIDATING_WEBHOOKS, Key
from pyroclast.kube import caller
from pyroclast.kube.client import PatchKind
from pyroclast_job_controller import jobs
from pyroclast_job_controller.batches import slow_start
from pyroclast_job_controller.pod_actions import PodActions
from pyroclast_job_controller.refusal import NamespaceGoing

from .cluster import NS, running_cluster, task
from .test_controller import command, told

HOLD = {"metadata": {"finalizers": ["example.com/hold"]}}


@pytest.fixture
async def cluster():
    async with running_cluster() as running:
        running.holding.add("all")
        yield running


async def test_a_podgroup_that_a_finalizer_holds_is_waited_for_and_named(cluster):
    await cluster.job("j", task(replicas=2))
    await cluster.reaches("j", "Running")
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
    await cluster.job("j", task(replicas=2))
    await cluster.reaches("j", "Running")
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
    assert cluster.server.requests()["create", "pods"] == 1


async def test_in_a_namespace_that_is_going_nothing_is_asked_until_its_time(cluster, monkeypatch):
    asked = []

    async def closed(self, job, effect, **_):
        asked.append(job.metadata.name)
        raise NamespaceGoing

    monkeypatch.setattr(jobs, "_CLOSED", 1000.0)
    monkeypatch.setattr(PodActions, "carry_out", closed)
    await cluster.job("j", task(replicas=2))
    await cluster.until(lambda: asyncio.sleep(0, asked))
    for number in range(3):
        mark = {"metadata": {"annotations": {"poke": str(number)}}}
        await cluster.client.patch(JOBS, Key(NS, "j"), mark, PatchKind.MERGE)
        await cluster.job(f"k{number}")
        await cluster.until(lambda name=f"k{number}": asyncio.sleep(0, name in asked))
    assert asked == ["j", "k0", "k1", "k2"]


async def test_what_was_refused_is_tried_with_one_pod_first():
    tried = []

    async def action(number):
        tried.append(number)

    assert await slow_start(range(10), action, first=1) == []
    assert sorted(tried) == list(range(10))


@pytest.mark.parametrize("kind", [CONFIG_MAPS, SERVICES])
async def test_plugin_objects_of_a_job_that_had_the_name_are_made_anew(cluster, kind):
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


async def test_a_deletion_while_nobody_watches_is_answered_all_the_same(cluster):
    await cluster.job("j", task(replicas=3), policies=[{"event": "PodEvicted", "action": "RestartJob"}])
    await cluster.reaches("j", "Running")

    async def counted():
        return (await cluster.client.get(JOBS, Key(NS, "j")))["status"].get("running") == 3

    await cluster.until(counted)
    await cluster.kill()
    await cluster.client.delete(PODS, Key(NS, "j-a-1"))

    async def gone():
        return await cluster.names(PODS) == ["j-a-0", "j-a-2"]

    await cluster.until(gone)
    await cluster.start()

    async def restarted():
        status = (await cluster.client.get(JOBS, Key(NS, "j")))["status"]
        return (status["state"]["phase"], status.get("retryCount"), status.get("running")) == ("Running", 1, 3)

    await cluster.until(restarted)
    assert "ExecuteAction: Start to execute action RestartJob " in await told(cluster)


async def test_a_webhook_that_is_away_is_named_and_waited_for_without_end(cluster, monkeypatch):
    monkeypatch.setattr(caller, "MAX_ATTEMPTS", 1)
    await cluster.kill()
    await cluster.start(max_requeue_num=0)
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
