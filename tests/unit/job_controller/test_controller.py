"""The whole controller against the embedded API server."""

import asyncio

import pytest

from pyroclast.api.types import (
    COMMANDS,
    CONFIG_MAPS,
    EVENTS,
    JOBS,
    NAMESPACES,
    NETWORK_POLICIES,
    POD_GROUPS,
    PODS,
    RESOURCE_QUOTAS,
    SECRETS,
    SERVICES,
    Key,
)
from pyroclast.kube.basics.errors import Forbidden
from pyroclast.kube.http.client import Client, PatchKind

from .cluster import NS, authorized, running_cluster, task

CONFIG = {"apiVersion": "v1", "kind": "ConfigMap"}


@pytest.fixture
async def cluster():
    async with running_cluster() as running:
        yield running


async def plugin_objects(cluster):
    found = [await cluster.names(kind) for kind in (CONFIG_MAPS, SERVICES, NETWORK_POLICIES)]
    return [[name for name in names if name.startswith("j")] for names in found]


async def told(cluster, name="j"):
    events = (await cluster.client.list(EVENTS, NS))[0]
    return [f"{event['reason']}: {event['message']}" for event in events if event["involvedObject"]["name"] == name]


async def command(cluster, action, kind=JOBS, name="j", uid=""):
    uid = uid or (await cluster.client.get(kind, Key(NS if kind.namespaced else "", name)))["metadata"]["uid"]
    target = {"apiVersion": kind.api_version, "kind": kind.kind, "name": name, "uid": uid}
    await cluster.client.create(COMMANDS, authorized(action, target, generateName="c-"))


async def test_completed_job_leaves_only_its_pods(cluster):
    cluster.holding.add("all")
    cluster.server.forget_requests()
    await cluster.running("j", task("l", 1), task("w", 3), plugins={"svc": [], "env": []})
    assert await plugin_objects(cluster) == [["j-svc"], ["j"], ["j"]]
    pod = await cluster.client.get(PODS, Key(NS, "j-w-2"))
    assert {each["name"] for each in pod["spec"]["containers"][0]["env"]} >= {"VC_TASK_INDEX", "VC_W_HOSTS", "VC_L_NUM"}
    cluster.holding.clear()
    await cluster.reaches("j", "Completed")

    async def cleaned():
        return await plugin_objects(cluster) == [[], [], []] and await cluster.names(POD_GROUPS) == []

    await cluster.until(cleaned)
    job = await cluster.client.get(JOBS, Key(NS, "j"))
    assert (job["status"]["succeeded"], job["status"]["version"]) == (4, 1)
    requests = cluster.server.requests()
    assert requests["create", "pods"] == 4
    assert requests["patch", "jobs"] <= 7


async def test_jobs_complete_without_duplicate_pods_despite_controller_kills(cluster):
    for number in range(20):
        await cluster.job(f"j{number}", task(replicas=2))
        if number % 10 == 5:
            await cluster.kill()
            await cluster.start()

    async def all_done():
        jobs = (await cluster.client.list(JOBS, NS))[0]
        return all((job.get("status") or {}).get("state", {}).get("phase") == "Completed" for job in jobs)

    for _ in range(3):
        await asyncio.sleep(0.2)
        await cluster.kill()
        await cluster.start()
    await cluster.until(all_done, within=60)
    assert cluster.server.requests()["create", "pods"] == 40


async def test_foreign_configmap_is_kept_and_blocks_only_the_job_that_needs_its_name(cluster):
    theirs = {**CONFIG, "metadata": {"name": "j-svc", "namespace": NS}, "data": {"mine": "1"}}
    await cluster.client.create(CONFIG_MAPS, theirs)
    await cluster.job("j", plugins={"svc": []})
    await cluster.job("k", plugins={"svc": []})
    await cluster.reaches("k", "Completed")
    assert await cluster.phase("j") == "Pending"
    assert (await cluster.client.get(CONFIG_MAPS, Key(NS, "j-svc")))["data"] == {"mine": "1"}
    text = "Execute plugin when job add failed, err: ConfigMap default/j-svc exists and does not belong to this job"
    assert f"PluginError: {text}" in await told(cluster)
    await cluster.client.delete(CONFIG_MAPS, Key(NS, "j-svc"))
    await cluster.reaches("j", "Completed")


@pytest.mark.parametrize("is_policed", [True, False])
async def test_foreign_secret_is_kept_whether_or_not_a_policy_refuses_to_read_it(cluster, monkeypatch, is_policed):
    meta = {"name": "j-ssh", "namespace": NS}
    await cluster.client.create(SECRETS, {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": {"mine": "1"}})
    plain = Client.patch

    async def patch(self, kind, *arguments, **options):
        if is_policed and kind is SECRETS:
            raise Forbidden(403, "Forbidden", "the ServiceAccount may only write secrets that a Job owns")
        return await plain(self, kind, *arguments, **options)

    monkeypatch.setattr(Client, "patch", patch)
    await cluster.job("j", plugins={"ssh": []})
    text = "Execute plugin when job add failed, err: Secret default/j-ssh exists and does not belong to this job"

    async def complained():
        return f"PluginError: {text}" in await told(cluster)

    await cluster.until(complained)
    assert (await cluster.client.get(SECRETS, Key(NS, "j-ssh")))["data"].keys() == {"mine"}


async def test_foreign_pod_is_reported_and_the_job_completes_after_its_deletion(cluster):
    meta = {"name": "j-a-0", "namespace": NS}
    spec = {"containers": [{"name": "c", "image": "b"}], "terminationGracePeriodSeconds": 0}
    await cluster.client.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    await cluster.job("j", task(replicas=2))

    async def complained():
        return any("does not belong to this job" in line for line in await told(cluster))

    await cluster.until(complained)
    await cluster.client.delete(PODS, Key(NS, "j-a-0"), grace_seconds=0)
    await cluster.reaches("j", "Completed")


async def test_pods_refused_by_a_quota_are_reported_and_created_when_the_quota_is_raised(cluster):
    cluster.holding.add("all")
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": NS}}
    await cluster.client.create(RESOURCE_QUOTAS, {**quota, "spec": {"hard": {"pods": "2"}}})
    await asyncio.sleep(0.3)
    await cluster.job("j", task(replicas=4))

    async def complained():
        return any(line.startswith("FailedCreate: Error creating pods: [") for line in await told(cluster))

    await cluster.until(complained)
    assert len(await cluster.names(PODS)) == 2
    await cluster.client.patch(RESOURCE_QUOTAS, Key(NS, "q"), {"spec": {"hard": {"pods": "9"}}}, PatchKind.MERGE)
    await cluster.reaches("j", "Running")


async def test_job_is_terminated_when_the_requeue_limit_is_reached(cluster):
    await cluster.kill()
    await cluster.start(max_requeue_num=4)
    await cluster.job("j", plugins={"nobody": []})
    await cluster.reaches("j", "Terminated")
    state = (await cluster.client.get(JOBS, Key(NS, "j")))["status"]["state"]
    assert (state["reason"], state["message"]) == (
        "RequeueLimitReached",
        "Execute plugin when job add failed, err: failed to get plugin nobody; no pod is left that runs or waits",
    )

    async def told_why():
        return "ExecuteAction: Job failed on action SyncJob for retry limit reached" in await told(cluster)

    await cluster.until(told_why)


async def test_unknown_plugin_and_missing_queue_are_reported_and_the_jobs_stay_pending(cluster):
    await cluster.job("j", plugins={"nobody": []})
    await cluster.job("k", queue="nowhere")

    async def told_of_both():
        return "PluginError" in "".join(await told(cluster)) and "PodGroupError" in "".join(await told(cluster, "k"))

    await cluster.until(told_of_both)
    assert "PluginError: Execute plugin when job add failed, err: failed to get plugin nobody" in await told(cluster)
    assert 'PodGroupError: Failed to create PodGroup, err: queue "nowhere" not found' in await told(cluster, "k")
    assert (await cluster.phase("j"), await cluster.phase("k")) == ("Pending", "Pending")


async def test_namespace_with_a_job_is_deleted_and_a_job_elsewhere_completes(cluster):
    cluster.holding.add("all")
    await cluster.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "t"}})
    await cluster.job("j", task(replicas=3), plugins={"svc": []}, namespace="t")
    await cluster.client.delete(NAMESPACES, Key("", "t"))
    await cluster.job("j")

    async def gone():
        return "t" not in await cluster.names(NAMESPACES, "")

    cluster.holding.clear()
    await cluster.until(gone)
    await cluster.reaches("j", "Completed")


async def test_changed_job_annotations_reach_the_podgroup_and_foreign_edits_there_are_kept(cluster):
    cluster.holding.add("all")
    await cluster.running("j")
    note = {"metadata": {"annotations": {"sla-waiting-time": "1h"}, "labels": {"team": "t"}}}
    await cluster.client.patch(JOBS, Key(NS, "j"), note, PatchKind.MERGE)

    async def group():
        return (await cluster.client.list(POD_GROUPS, NS))[0][0]["metadata"]

    async def carried():
        meta = await group()
        return (meta.get("annotations", {}).get("sla-waiting-time"), meta.get("labels", {}).get("team")) == ("1h", "t")

    await cluster.until(carried)
    other = {"metadata": {"annotations": {"sla-waiting-time": "2h"}}}
    await cluster.client.patch(POD_GROUPS, Key(NS, (await group())["name"]), other, PatchKind.MERGE)
    await asyncio.sleep(0.5)
    assert (await group())["annotations"]["sla-waiting-time"] == "2h"
