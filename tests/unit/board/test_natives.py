"""PodGroups of Kubernetes itself on the pages, from an API server that has them only after a while."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import msgspec
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from pyroclast.api.keys import SCHEDULING_QUEUE_NAME as QUEUE
from pyroclast.api.types import CRDS, EVENTS, NATIVE_POD_GROUPS, POD_GROUPS, PODS, Key
from pyroclast.kube.basics.errors import KubeError
from pyroclast.kube.credentials.config import ClusterConfig
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.runtime.metrics import render
from pyroclast_board.cluster.cluster import Cluster
from pyroclast_board.cluster.records import ShownObject, ShownPod
from pyroclast_board.metrics import JobEnds, WaitingJobs

from .conftest import FULL, POD, Board, answering, running_board

WHY = "2 of 3 pods have room"
OWNER = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "controller": True}
SCHEMA = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
VERSION = {"name": NATIVE_POD_GROUPS.version, "served": True, "storage": True, "subresources": {"status": {}}, "schema": SCHEMA}
NAMES = {"plural": NATIVE_POD_GROUPS.plural, "kind": NATIVE_POD_GROUPS.kind, "singular": "podgroup"}
APPROVAL = {"api-approved.kubernetes.io": "unapproved, stands in for the built-in kind"}
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": NATIVE_POD_GROUPS.qualified, "annotations": APPROVAL},
    "spec": {"group": NATIVE_POD_GROUPS.group, "scope": "Namespaced", "names": NAMES, "versions": [VERSION]},
}


def conditions(*, waits: bool) -> dict[str, Any]:
    at = "2030-01-01T00:00:00Z"
    scheduled = {"type": "PodGroupInitiallyScheduled", "status": str(not waits), "reason": "x", "lastTransitionTime": at}
    queued = {"type": "pyroclast.dev/Queued", "status": str(waits), "reason": "NodesFull" if waits else "Admitted"}
    return {"conditions": [scheduled, {**queued, "message": WHY if waits else "", "lastTransitionTime": at}]}


def group(name: str, *, namespace: str = "team", waits: bool = True, **meta: Any) -> dict[str, Any]:
    policy = {"schedulingPolicy": {"gang": {"minCount": 3}}}
    return {"metadata": {"namespace": namespace, "name": name, **meta}, "spec": policy, "status": conditions(waits=waits)}


def pod(name: str, of: str) -> dict[str, Any]:
    spec = {**POD, "nodeName": "node-7", "schedulingGroup": {"podGroupName": of}}
    return {"metadata": {"namespace": "team", "name": name}, "spec": spec, "status": {"phase": "Running"}}


async def serve(board: Board) -> None:
    """Have the API server serve the kind."""
    await board.client.create(CRDS, CRD)
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(KubeError):  # not served yet
                await board.client.list(NATIVE_POD_GROUPS)
                break
            await asyncio.sleep(0.05)


@pytest.fixture(autouse=True)
def _natives_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyroclast_board.cluster.natives.LOOK_SECONDS", 0.1)
    monkeypatch.setattr("pyroclast_standalone.apiserver.kinds.pod_defaults.OFF", ())  # as where the feature is on


async def test_native_podgroup_is_listed_and_explained_from_waiting_until_its_pods_are_deleted() -> None:
    async with running_board() as board:
        uid = await board.job("team", "train", code=FULL.partition("; ")[2])
        await serve(board)
        queue = {"scheduling.volcano.sh/queue-name": "research"}
        made = await board.put(NATIVE_POD_GROUPS, group("ranks", labels=queue))
        own = f"/jobs/{made['metadata']['uid']}"
        await board.put(NATIVE_POD_GROUPS, group("shown", ownerReferences=[OWNER | {"uid": uid}]))
        await board.put(NATIVE_POD_GROUPS, {**group("theirs"), "status": {}})
        page = await board.until("/jobs", f'href="{own}">ranks</a> (PodGroup of Kubernetes)', "<b>2</b> Jobs")
        assert "shown" not in page
        assert "theirs" not in page
        assert "ranks" in await board.get("/jobs?code=NodesFull&queue=research&state=waiting")
        assert "ranks" not in await board.get("/jobs?code=QueueFull")
        page = await board.get(own)
        about = "0 of 3 run", "vcctl explain -n team podgroup/ranks", "<p>It has no pods now.</p>", "<h2>Events</h2>"
        for words in (WHY, "<b>NodesFull</b>", *about):
            assert words in page
        for number in range(2):
            await board.put(PODS, pod(f"ranks-{number}", "ranks"))
        status = {"status": conditions(waits=False)}
        await board.client.patch(NATIVE_POD_GROUPS, Key("team", "ranks"), status, PatchKind.MERGE, subresource="status")
        page = await board.until(own, "2 of 2 run", "node-7")
        assert "NodesFull" not in page
        assert "ranks" in await board.get("/jobs?state=running")
        for number in range(2):
            await board.client.delete(PODS, Key("team", f"ranks-{number}"), grace_seconds=0)
        await board.until("/jobs", "<b>1</b> Job")
        assert "there is no history" in await board.get(own, status=503)


async def test_waiting_native_podgroup_shows_queue_requests_and_likely_start_and_is_counted() -> None:
    said = {"code": "NodesFull", "ahead": 0, "queue": "research", "requests": {"cpu": "6"}, "basis": "3 from history"}
    said["start"] = [f"2030-01-01T0{hour}:00:00Z" for hour in (1, 2, 3)]
    waiting = {"type": "pyroclast.dev/Waiting", "status": "True", "reason": "NodesFull", "message": json.dumps(said)}
    async with running_board() as board:
        await serve(board)
        status = {"conditions": [*conditions(waits=True)["conditions"], waiting]}
        made = await board.put(NATIVE_POD_GROUPS, {**group("ranks"), "status": status})
        await board.until("/jobs?queue=research", "ranks")
        page = await board.get(f"/jobs/{made['metadata']['uid']}")
        assert "most likely" in page
        assert "3 from history" in page
        assert "6 cpu" in page
        registry, cluster = CollectorRegistry(), Cluster(board.client, "default")
        WaitingJobs(registry, cluster)
        cluster.natives.put_group(None, msgspec.convert(await found(board, "ranks"), ShownObject))
        text = render(registry).decode()
    assert 'pyroclast_waiting_jobs{code="NodesFull",queue="research"} 1.0' in text
    assert 'pyroclast_waiting_resources{queue="research",resource="cpu"} 6.0' in text


async def found(board: Board, name: str) -> dict[str, Any]:
    return await board.client.get(NATIVE_POD_GROUPS, Key("team", name))


async def test_native_podgroup_wait_seconds_are_counted_when_it_starts() -> None:
    registry, cluster = CollectorRegistry(), Cluster(Client(ClusterConfig("http://127.0.0.1:1")), "default")
    JobEnds(registry, cluster)
    meta = {"uid": "u", "creationTimestamp": "2029-12-31T23:50:00Z", "labels": {QUEUE: "research"}}
    before, after = (msgspec.convert(group("ranks", waits=waits, **meta), ShownObject) for waits in (True, False))
    cluster.natives.put_pod(None, msgspec.convert(pod("p", "ranks"), ShownPod))
    cluster.natives.put_group(None, before)
    cluster.natives.put_group(before, after)
    assert 'pyroclast_wait_seconds_sum{queue="research"} 600.0' in render(registry).decode()


async def test_native_podgroup_without_a_queue_shows_the_queue_of_its_pods() -> None:
    async with running_board() as board:
        await serve(board)
        for name, waits in (("waits", True), ("runs", False)):
            await board.put(NATIVE_POD_GROUPS, group(name, waits=waits))
            made = pod(f"{name}-0", name)
            await board.put(PODS, {**made, "metadata": {**made["metadata"], "annotations": {QUEUE: f"for-{name}"}}})
        for name in ("waits", "runs"):
            page = await board.until(f"/jobs?queue=for-{name}", f">{name}</a> (PodGroup of Kubernetes)")
            assert f'<a href="/queues/for-{name}">' in page


async def test_native_podgroup_page_shows_the_scheduler_explanation_and_events_of_its_uid() -> None:
    asked: list[tuple[str, str]] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        asked.append((request.path, request.query_string))
        said = {"code": "NodesFull", "never": False, "sentence": "as the scheduler says", "complete": True, "help": ""}
        order = {"position": {"position": 2, "total": 5}, "ahead": {"jobs": [], "others": 1}, "holders": [], "resources": []}
        start = {"start": None, "startReason": "it is not estimated", "asOf": "2026-11-24T12:00:00Z"}
        return web.json_response({**said, **order, **start})

    async with answering(answer) as url, running_board(scheduler_url=url) as board:
        await serve(board)
        made = await board.put(NATIVE_POD_GROUPS, group("ranks"))
        uid = made["metadata"]["uid"]
        about = {"apiVersion": NATIVE_POD_GROUPS.api_version, "kind": "PodGroup", "namespace": "team", "name": "ranks"}
        for number, of in enumerate((uid, "another")):
            told = {"metadata": {"namespace": "team", "name": f"e{number}"}, "involvedObject": {**about, "uid": of}}
            reason = "Unschedulable" if of == uid else "OfAnother"
            await board.client.create(EVENTS, {**told, "type": "Warning", "reason": reason, "message": "no room"})
        page = await board.until(f"/jobs/{uid}", "as the scheduler says", "2 of 5 in its queue by the scheduler", "Unschedulable")
        assert "OfAnother" not in page
        assert WHY not in page
        assert ("/explain/podgroups/team/ranks", "changes=true") in asked


async def test_native_podgroups_in_forbidden_namespaces_are_counted_but_not_named() -> None:
    async with running_board(login="token") as board:
        await serve(board)
        token = await board.token("member", "team")
        for namespace in ("team", "other"):
            made = await board.put(NATIVE_POD_GROUPS, group(f"gang-{namespace}", namespace=namespace))
        page = await board.until("/jobs", "gang-team", "1 more of others", token=token)
        assert "gang-other" not in page
        await board.get(f"/jobs/{made['metadata']['uid']}", status=404, token=token)


async def test_podgroup_of_plain_pods_is_listed_with_its_owner_and_explained() -> None:
    owner = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "rays", "uid": "u-1", "controller": True}
    waits = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": f"{FULL}", "transitionID": "1"}
    async with running_board() as board:
        spec = {"queue": "research", "minMember": 2, "minResources": {"cpu": "4"}}
        meta = {"namespace": "team", "name": "rays-pg", "ownerReferences": [owner]}
        made = await board.put(
            POD_GROUPS, {"metadata": meta, "spec": spec, "status": {"phase": "Pending", "conditions": [waits]}}
        )
        await board.job("team", "train", code=FULL.partition("; ")[2])
        own = f"/jobs/{made['metadata']['uid']}"
        page = await board.until(
            "/jobs?state=waiting", f'href="{own}">rays-pg</a> (PodGroup of RayCluster rays)', "<b>2</b> Jobs"
        )
        assert "research may use 8 cpu" in await board.get(own)
        annotations = {"scheduling.k8s.io/group-name": "rays-pg"}
        pod = {"metadata": {"namespace": "team", "name": "rays-0", "annotations": annotations}, "spec": {**POD, "nodeName": "n7"}}
        await board.put(PODS, {**pod, "status": {"phase": "Running"}})
        await board.client.patch(POD_GROUPS, Key("team", "rays-pg"), {"status": {"phase": "Running"}}, PatchKind.MERGE)
        page = await board.until(own, "1 of 1 run", "n7")
        assert "QueueFull" not in page
        assert "rays-pg" in await board.get("/jobs?state=running")
