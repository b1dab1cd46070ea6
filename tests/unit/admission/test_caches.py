"""The caches show the rules the same as the objects themselves would; where they may lag, what is there now is read."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import orjson
import pytest

from pyroclast.api.crds import custom_resource_definitions
from pyroclast.api.keys import SERVICE_CLASS, SUBMITTED_BY
from pyroclast.api.records import JobFlow, Queue, ResourceQuota
from pyroclast.api.types import CRDS, JOBS, NAMESPACES, QUEUES, Key
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.kube.watch.informer import Informer
from pyroclast.rules import queue_access
from pyroclast.rules.lookups import FlowView, QueueView
from pyroclast.runtime.in_process.queues import QueueCache, queue_view
from pyroclast_admission import caches
from pyroclast_admission.caches import FlowCache
from pyroclast_admission.lookup import REMEMBERED_SECONDS, Fetcher
from tests.unit.running import running_server

MANIFESTS = [
    {"metadata": {"name": "bare"}},
    {
        "metadata": {"name": "full", "annotations": {"volcano.sh/hierarchy": "root/a", "volcano.sh/hierarchy-weights": "1/2"}},
        "spec": {
            "parent": "root",
            "capability": {"cpu": 2, "nvidia.com/gpu": "1"},
            "deserved": {"cpu": "1"},
            "guarantee": {"resource": {"cpu": "500m"}},
        },
        "status": {"state": "Closing", "allocated": {"pods": "3"}},
    },
]


@pytest.mark.parametrize("queue", MANIFESTS, ids=["bare", "full"])
def test_a_cached_queue_has_the_same_view_as_its_manifest(queue: dict[str, object]) -> None:
    assert queue_view(msgspec.json.decode(orjson.dumps(queue), type=Queue)) == QueueView.of(queue)


async def test_children_of_a_queue_follow_changed_parents_and_removals() -> None:
    async with running_server() as server, Client(load_config(str(server.kubeconfig))) as client:
        cache = QueueCache(Informer(client, QUEUES, Queue))
    for name, parent in (("b", "p"), ("a", "p"), ("c", "q")):
        cache.put(QueueView(name, parent))
    assert [child.name for child in cache.children("p")] == ["a", "b"]
    cache.put(QueueView("a", "q"))
    cache.remove("c")
    cache.remove("nobody")
    assert [child.name for child in cache.children("p")] == ["b"]
    assert [child.name for child in cache.children("q")] == ["a"]
    assert {queue.name for queue in cache.all()} == {"a", "b"}


async def test_a_jobflow_under_deletion_uses_no_jobtemplate() -> None:
    async with running_server() as server, Client(load_config(str(server.kubeconfig))) as client:
        cache = FlowCache(client)
    for name, metadata in (
        ("runs", {}),
        ("goes", {"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        ("elsewhere", {"namespace": "m"}),
    ):
        body = {"metadata": {"name": name, "namespace": "n", **metadata}, "spec": {"flows": [{"name": "a"}]}}
        cache.informer._store.put(msgspec.convert(body, JobFlow))
    assert list(cache.using("n", "a")) == [FlowView("runs")]
    assert list(cache.using("n", "b")) == []


QUOTAS = {
    "none of the class": ({"pods": "0"}, [{"operator": "In", "values": ["high"]}], True),
    "no cpu for it": ({"requests.cpu": 0}, [{"operator": "In", "values": ["other", "high"]}], True),
    "all but one": ({"pods": "0"}, [{"operator": "NotIn", "values": ["low"]}], True),
    "every class": ({"count/pods": "0"}, [{"operator": "Exists"}], True),
    "some of the class": ({"pods": "3"}, [{"operator": "In", "values": ["high"]}], False),
    "another class": ({"pods": "0"}, [{"operator": "In", "values": ["low"]}], False),
    "another thing": ({"services": "0"}, [{"operator": "In", "values": ["high"]}], False),
    "for all pods": ({"pods": "0"}, [], False),
    "only some pods": ({"pods": "0"}, [{"operator": "Exists"}, {"scopeName": "BestEffort", "operator": "Exists"}], False),
}


@pytest.mark.parametrize(("hard", "rules", "forbids"), QUOTAS.values(), ids=QUOTAS.keys())
def test_a_quota_forbids_a_class_if_it_leaves_no_pods_of_that_class(
    hard: dict[str, object], rules: list[dict[str, object]], forbids: bool
) -> None:
    selector = {"matchExpressions": [{"scopeName": "PriorityClass", **rule} for rule in rules]}
    quota = {"metadata": {"name": "q", "namespace": "team-a"}, "spec": {"hard": hard, "scopeSelector": selector}}
    assert caches.forbids(msgspec.json.decode(orjson.dumps(quota), type=ResourceQuota), "high") is forbids


CHILD = (QUEUES, Key("", "child"))
MANIFEST = {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": "child"}, "spec": {"parent": "above"}}


async def test_only_the_absence_of_an_uncached_queue_is_remembered() -> None:
    now = [0.0]
    async with running_server() as server, Client(load_config(str(server.kubeconfig))) as client:
        for definition in custom_resource_definitions():
            if definition["spec"]["names"]["kind"] == "Queue":
                await client.create(CRDS, definition)
        await server.settle()
        cache = QueueCache(Informer(client, QUEUES, Queue))
        fetcher = Fetcher(client, cache, clock=lambda: now[0])
        view = QueueView("child", "above")
        assert await fetcher.fetch(CHILD) is None
        await client.create(QUEUES, MANIFEST)
        assert await fetcher.fetch(CHILD) is None, "it was asked for a moment ago"
        now[0] = REMEMBERED_SECONDS
        assert await fetcher.fetch(CHILD) == view
        cache.put(view)
        await client.delete(QUEUES, CHILD[1])
        assert await fetcher.fetch(CHILD) is None
        await client.create(QUEUES, MANIFEST)
        assert await fetcher.fetch(CHILD) == view, "what the cache has is read each time"


TASK = {"name": "main", "replicas": 1, "template": {"spec": {"containers": [{"name": "main", "image": "any"}]}}}


def waiting_job(name: str, queue: str = "child", by: str = "ann", **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "team", "annotations": {SUBMITTED_BY: by}, "labels": labels}
    return {"apiVersion": JOBS.api_version, "kind": "Job", "metadata": metadata, "spec": {"queue": queue, "tasks": [TASK]}}


async def test_jobs_that_have_not_started_are_counted_by_queue_person_and_class() -> None:
    limits = '{"waitingJobs": 3, "classes": {"long": {"waitingJobs": 1}}}'
    async with running_server() as server, Client(load_config(str(server.kubeconfig))) as client:
        for definition in custom_resource_definitions():
            if definition["spec"]["names"]["kind"] == "Job":
                await client.create(CRDS, definition)
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
        await server.settle()
        queues = QueueCache(Informer(client, QUEUES, Queue))
        queues.put(QueueView("limited", "root", person_limits=limits))
        queues.put(QueueView("child", "limited"))
        now = [0.0]
        waiting = caches.WaitingJobs(client, queues, clock=lambda: now[0])

        def refusal(name: str, **given: str) -> str:
            return queue_access.check_waiting(waiting_job(name, **given), queues, waiting)

        with pytest.raises(queue_access.WaitingUnknown):
            refusal("new")
        assert refusal("free", queue="other") == ""
        for job in (waiting_job("a"), waiting_job("b", "limited"), waiting_job("c", by="bob"), waiting_job("d", "other")):
            await client.create(JOBS, job)
        await client.create(JOBS, waiting_job("runs"))
        running = {"status": {"state": {"phase": "Running"}}}
        await client.patch(JOBS, Key("team", "runs"), running, PatchKind.MERGE, subresource="status")
        async with asyncio.TaskGroup() as group:
            task = group.create_task(waiting.run())
            await waiting.informer.synced()
            assert [refusal("new"), refusal("new")] == ["", ""], "it counts once"
            told = "ann may have at most 3 waiting Jobs in queue limited, and has 3; submit again when some of them have started"
            assert refusal("newer") == told
            assert refusal("of-bob", by="bob") == ""
            now[0] += caches.ALLOWED_SECONDS
            long = {SERVICE_CLASS: "long"}
            assert refusal("long", **long) == "", "the new Job never came"
            await client.create(JOBS, waiting_job("long", **long))
            now[0] += caches.ALLOWED_SECONDS
            while waiting.informer.get(Key("team", "long")) is None:
                await asyncio.sleep(0.01)
            assert "ann may have at most 3 waiting Jobs in" in refusal("longer", **long)
            await client.delete(JOBS, Key("team", "a"))
            while waiting.informer.get(Key("team", "a")) is not None:
                await asyncio.sleep(0.01)
            assert "ann may have at most 1 waiting Jobs of class long" in refusal("longer", **long)
            task.cancel()
