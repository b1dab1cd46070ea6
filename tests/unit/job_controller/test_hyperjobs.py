"""HyperJobs and ColocationConfigurations on the embedded API server."""

import pytest

from pyroclast.api.types import COLOCATION_CONFIGURATIONS, HYPER_JOBS, JOBS, NAMESPACES, PODS, Key
from pyroclast.kube.basics.errors import Conflict, NotFound
from pyroclast.kube.http.client import PatchKind

from .cluster import NS, running_cluster, task


@pytest.fixture
async def cluster():
    async with running_cluster() as running:
        yield running


async def namespace(cluster, name, **annotations):
    marks = {f"training.volcano.sh/{key.replace('_', '-')}": value for key, value in annotations.items()}
    await cluster.client.create(
        NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "annotations": marks}}
    )


async def hyper_job(cluster, *domains, replicas=2):
    spec = {"minAvailable": 1, "queue": "default", "schedulerName": "volcano", "tasks": [task()]}
    entry = {"name": "a", "replicas": replicas, "templateSpec": spec, **({"clusterNames": list(domains)} if domains else {})}
    body = {"apiVersion": HYPER_JOBS.api_version, "kind": "HyperJob", "metadata": {"name": "h", "namespace": NS}}
    await cluster.client.create(HYPER_JOBS, {**body, "spec": {"replicatedJobs": [entry]}})


async def conditions(cluster):
    status = (await cluster.client.get(HYPER_JOBS, Key(NS, "h"))).get("status") or {}
    return {condition["type"]: (condition["status"], condition["reason"]) for condition in status.get("conditions", [])}


async def jobs(cluster):
    return sorted((job["metadata"]["namespace"], job["metadata"]["name"]) for job in (await cluster.client.list(JOBS))[0])


def is_true(cluster, condition):
    async def there():
        return (await conditions(cluster)).get(condition, ("",))[0] == "True"

    return cluster.until(there)


async def test_jobs_are_created_in_their_namespaces_and_deleted_with_the_hyperjob(cluster):
    await namespace(cluster, "x", hyperjobs_from=NS)
    await hyper_job(cluster, NS, "x", replicas=3)
    await is_true(cluster, "Completed")
    assert await jobs(cluster) == [(NS, "h-a-0"), (NS, "h-a-2"), ("x", "h-a-1")]
    status = (await cluster.client.get(HYPER_JOBS, Key(NS, "h")))["status"]
    assert (status["splitCount"], status["replicatedJobsStatus"][0]["succeeded"]) == (3, 3)
    await cluster.client.delete(HYPER_JOBS, Key(NS, "h"), propagation="Background")

    async def gone():
        try:
            await cluster.client.get(HYPER_JOBS, Key(NS, "h"))
        except NotFound:
            return await jobs(cluster) == []
        return False

    await cluster.until(gone)


async def test_hyperjob_of_forty_jobs_is_reported_in_at_most_20_status_writes(cluster):
    cluster.server.forget_requests()
    await hyper_job(cluster, replicas=40)
    await is_true(cluster, "Completed")
    status = (await cluster.client.get(HYPER_JOBS, Key(NS, "h")))["status"]
    assert len(status["replicatedJobsStatus"][0]["jobStates"]) == 40
    requests = cluster.server.requests()
    assert requests["create", "jobs"] == 40
    assert requests["patch", "hyperjobs"] <= 20


@pytest.mark.parametrize("form", [PatchKind.MERGE, PatchKind.JSON])
async def test_hyperjob_status_write_that_another_client_overtakes_conflicts_and_is_repeated(cluster, monkeypatch, form):
    patch, refused = cluster.controller_client.patch, []

    async def overtaken(kind, key, body, how=PatchKind.MERGE, *, subresource=""):
        if (kind, how, subresource) == (HYPER_JOBS, form, "status") and not refused:
            await cluster.client.patch(kind, key, {"metadata": {"annotations": {"a": "b"}}}, PatchKind.MERGE)
            try:
                return await patch(kind, key, body, how, subresource=subresource)
            except Conflict:
                refused.append(key)
                raise
        return await patch(kind, key, body, how, subresource=subresource)

    monkeypatch.setattr(cluster.controller_client, "patch", overtaken)
    await hyper_job(cluster)
    await is_true(cluster, "Completed")
    assert refused == [Key(NS, "h")]


async def test_deleted_completed_job_is_not_recreated_and_scaling_down_deletes_surplus_jobs(cluster):
    await hyper_job(cluster)
    await is_true(cluster, "Completed")
    await cluster.kill()
    await cluster.client.delete(JOBS, Key(NS, "h-a-0"))
    await cluster.start()
    entry = (await cluster.client.get(HYPER_JOBS, Key(NS, "h")))["spec"]["replicatedJobs"][0]
    patch = {"spec": {"replicatedJobs": [{**entry, "replicas": 1}]}}
    await cluster.client.patch(HYPER_JOBS, Key(NS, "h"), patch, PatchKind.MERGE)

    async def empty():
        return await jobs(cluster) == []

    await cluster.until(empty)
    assert (await conditions(cluster))["Completed"][0] == "True"


async def test_unusable_domain_is_reported_until_its_namespace_allows_hyperjobs(cluster):
    await hyper_job(cluster, "x", replicas=1)

    async def unsupported():
        return (await conditions(cluster)).get("Placed") == ("False", "ClusterNotSupported")

    async def forbidden():
        return (await conditions(cluster)).get("Placed") == ("False", "NamespaceNotAllowed")

    await cluster.until(unsupported)
    await namespace(cluster, "x")
    await cluster.until(forbidden)
    assert await jobs(cluster) == []
    marks = {"metadata": {"annotations": {"training.volcano.sh/hyperjobs-from": "*"}}}
    await cluster.client.patch(NAMESPACES, Key("", "x"), marks, PatchKind.MERGE)
    await is_true(cluster, "Completed")


async def test_matching_pods_are_annotated_with_a_colocation_configuration_until_it_is_deleted(cluster):
    cluster.holding.add("all")

    async def pod(name, **labels):
        meta = {"name": name, "namespace": NS, "labels": labels}
        spec = {"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "busybox"}]}
        await cluster.client.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})

    async def marks(name):
        annotations = (await cluster.client.get(PODS, Key(NS, name)))["metadata"].get("annotations") or {}
        return [annotations.get(f"volcano.sh/{key}") for key in ("colocation-config-name", "colocation-config")]

    await pod("early", a="b")
    await pod("other", a="c")
    body = {"apiVersion": COLOCATION_CONFIGURATIONS.api_version, "kind": "ColocationConfiguration"}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "memoryQos": {"highRatio": 80}}
    meta = {"name": "c", "namespace": NS}
    await cluster.client.create(COLOCATION_CONFIGURATIONS, {**body, "metadata": meta, "spec": spec})
    want = ["c", '{"memoryQos":{"highRatio":80}}']

    async def told(name="early"):
        return await marks(name) == want

    await cluster.until(told)
    await pod("late", a="b")
    await cluster.until(lambda: told("late"))
    assert await marks("other") == [None, None]
    await cluster.client.delete(COLOCATION_CONFIGURATIONS, Key(NS, "c"))

    async def taken_back():
        return [await marks(name) for name in ("early", "late")] == [[None, "{}"]] * 2

    await cluster.until(taken_back)
