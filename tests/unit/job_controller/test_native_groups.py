"""Jobs that show their gangs as PodGroups of Kubernetes itself: when, as what, and what stops nothing."""

import pytest

from pyroclast.api import keys
from pyroclast.api.types import JOBS, NATIVE_POD_GROUPS, POD_GROUPS, PODS, Key
from pyroclast.kube.basics.errors import Forbidden, ServerError
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.kube.http.client import PatchKind

from .cluster import NS, task
from .memory_cluster import virtual_cluster

GROUP = f"/apis/{NATIVE_POD_GROUPS.group}"
NOT_PUBLISHED = "PodGroupNotPublished"


@pytest.fixture
def said(monkeypatch):
    events = []
    monkeypatch.setattr(EventRecorder, "event", lambda _, _about, _type, reason, message, **__: events.append((reason, message)))
    return events


def serve(cluster):
    cluster.server.documents[GROUP] = {"versions": [{"version": "v1beta1"}]}
    cluster.server.documents[f"{GROUP}/v1beta1"] = {"resources": [{"name": "podgroups"}, {"name": "podgroups/status"}]}


def natives(cluster):
    return list(cluster.server.of(NATIVE_POD_GROUPS).values())


def named(cluster):
    """What pods say of their PodGroup of Kubernetes, each once."""
    return {(pod["spec"].get("schedulingGroup") or {}).get("podGroupName", "") for pod in cluster.pods()}


def ours(cluster):
    return next(iter(cluster.server.of(POD_GROUPS).values()), None)


async def started(cluster, pods):
    await cluster.until(lambda: ours(cluster))
    cluster.admit()
    await cluster.until(lambda: len(cluster.pods()) == pods)


@virtual_cluster(publish_native_groups=True)
async def test_native_podgroup_is_published_before_the_pods_and_the_pods_refer_to_it(cluster):
    serve(cluster)
    cluster.job("j", task("a", 2), task("b", 1), priorityClassName="high", queue="default")
    await cluster.until(lambda: ours(cluster))
    (group,) = natives(cluster)
    uid = cluster.server.of(JOBS)[Key(NS, "j")]["metadata"]["uid"]
    assert group["metadata"]["name"] == f"j-{uid}"
    assert group["metadata"]["labels"] == {keys.JOB_NAME: "j", keys.SCHEDULING_QUEUE_NAME: "default"}
    (owner,) = group["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"], "blockOwnerDeletion" in owner) == ("Job", uid, True, False)
    policy = {"gang": {"minCount": 3}}
    assert group["spec"] == {"schedulingPolicy": policy, "disruptionMode": {"all": {}}, "priorityClassName": "high"}
    assert ours(cluster)["metadata"]["annotations"][keys.NATIVE_GROUP] == f"j-{uid}"
    await started(cluster, 3)
    assert named(cluster) == {f"j-{uid}"}
    assert cluster.server.writes["patch", PODS.qualified] == 0


@virtual_cluster(publish_native_groups=True)
async def test_native_podgroup_has_no_disruption_mode_when_min_available_is_below_the_replicas(cluster):
    serve(cluster)
    cluster.job("j", task("a", 3, minAvailable=2), minAvailable=2)
    await cluster.until(lambda: ours(cluster))
    (group,) = natives(cluster)
    assert group["spec"] == {"schedulingPolicy": {"gang": {"minCount": 2}}}


@virtual_cluster(publish_native_groups=True)
async def test_min_count_of_the_native_podgroup_follows_min_available_of_the_job(cluster):
    serve(cluster)
    cluster.job("j", task("a", 3, minAvailable=3))
    await started(cluster, 3)
    patch = {"spec": {"minAvailable": 2, "tasks": [task("a", 3, minAvailable=2)]}}
    cluster.server.patch(JOBS, Key(NS, "j"), patch, PatchKind.MERGE)
    await cluster.until(lambda: ours(cluster)["spec"]["minMember"] == 2)
    assert natives(cluster)[0]["spec"]["schedulingPolicy"] == {"gang": {"minCount": 2}}


@pytest.mark.parametrize(
    ("tasks", "spec", "why"),
    [
        ([task("a", 2, minAvailable=0)], {"minAvailable": 0}, "a gang of at least 1 pod is expected"),
        ([task("a", 1)], {"schedulerName": "default-scheduler"}, "scheduler default-scheduler places the pods"),
        (
            [task("a", 1), task("b", 1, template={"spec": {"priorityClassName": "high", "containers": [{"name": "c"}]}})],
            {},
            "tasks have different priorities, no class and class high",
        ),
        (
            [task("a", 1, template={"spec": {"schedulingGroup": {"podGroupName": "g"}, "containers": [{"name": "c"}]}})],
            {},
            "the pods name another PodGroup",
        ),
    ],
    ids=["no minimum", "another scheduler", "priorities", "a group of its own"],
)
@virtual_cluster(publish_native_groups=True)
async def test_gang_that_a_native_podgroup_cannot_express_is_not_published_but_reported_once(cluster, said, tasks, spec, why):
    serve(cluster)
    cluster.job("j", *tasks, **spec)
    await started(cluster, sum(each["replicas"] for each in tasks))
    assert natives(cluster) == []
    assert keys.NATIVE_GROUP not in ours(cluster)["metadata"]["annotations"]
    (message,) = [message for reason, message in said if reason == NOT_PUBLISHED]
    assert why in message


@virtual_cluster(publish_native_groups=True)
async def test_job_starts_although_its_native_podgroup_is_refused(cluster, said):
    serve(cluster)
    create = cluster.replica.client.create

    async def refused(kind, body, **more):
        if kind.group == NATIVE_POD_GROUPS.group:
            raise Forbidden(403, "Forbidden", "no PriorityClass with name high was found")
        return await create(kind, body, **more)

    cluster.replica.client.create = refused
    cluster.job("j", task("a", 2))
    await started(cluster, 2)
    assert named(cluster) == {""}
    (message,) = [message for reason, message in said if reason == NOT_PUBLISHED]
    assert message.endswith("no PriorityClass with name high was found")


@virtual_cluster(publish_native_groups=True)
async def test_native_podgroup_creation_is_retried_after_a_server_error_without_a_duplicate(cluster):
    serve(cluster)
    create, tries = cluster.replica.client.create, []

    async def lost(kind, body, **more):
        answer = await create(kind, body, **more)
        if kind.group == NATIVE_POD_GROUPS.group and not tries:
            tries.append(body)
            raise ServerError(500, "InternalError", "etcdserver: request timed out")
        return answer

    cluster.replica.client.create = lost
    cluster.job("j", task("a", 2))
    await started(cluster, 2)
    (group,) = natives(cluster)
    assert named(cluster) == {group["metadata"]["name"]}


@virtual_cluster(publish_native_groups=True)
async def test_foreign_native_podgroup_is_left_alone_and_reported(cluster, said):
    serve(cluster)
    await cluster.replica.give(0)
    cluster.job("j", task("a", 1))
    name = f"j-{cluster.server.of(JOBS)[Key(NS, 'j')]['metadata']['uid']}"
    kind = NATIVE_POD_GROUPS
    spec = {"schedulingPolicy": {"basic": {}}}
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name, "namespace": NS}, "spec": spec}
    cluster.server.create(kind, body)
    cluster.replica.take(0)
    await started(cluster, 1)
    assert natives(cluster)[0]["spec"] == spec
    assert any("does not belong to this job" in message for reason, message in said if reason == NOT_PUBLISHED)
    assert named(cluster) == {""}


@virtual_cluster(publish_native_groups=True)
async def test_native_podgroups_are_published_only_once_their_api_is_served(cluster):
    cluster.job("one", task("a", 1))
    await started(cluster, 1)
    assert natives(cluster) == []
    serve(cluster)
    await cluster.replica.kill()
    await cluster.start_controller()
    cluster.job("two", task("a", 1))
    await cluster.until(lambda: natives(cluster))


@virtual_cluster()
async def test_native_podgroups_are_neither_discovered_nor_published_by_default(cluster):
    serve(cluster)
    cluster.job("j", task("a", 1))
    await started(cluster, 1)
    assert natives(cluster) == []
    assert cluster.server.reads["GET", GROUP] == 0


@virtual_cluster(seats=True, publish_native_groups=True)
async def test_pods_created_with_seats_refer_to_the_native_podgroup(cluster):
    serve(cluster)
    cluster.job("j", task("a", 2))
    await started(cluster, 2)
    assert ours(cluster)["metadata"]["annotations"][keys.SEATS]
    assert len(natives(cluster)) == 1
    assert "" not in named(cluster)
