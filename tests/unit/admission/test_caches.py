"""The caches show the rules the same as the objects themselves would; where they may lag, what is there now is read."""

from __future__ import annotations

import msgspec
import orjson
import pytest

from pyroclast.api.crds import custom_resource_definitions
from pyroclast.api.records import JobFlow, Queue, ResourceQuota
from pyroclast.api.types import CRDS, QUEUES, Key
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client
from pyroclast.kube.watch.informer import Informer
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
