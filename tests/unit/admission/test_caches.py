"""The caches show the rules the same as the objects themselves would."""

from __future__ import annotations

import msgspec
import orjson
import pytest

from pyroclast.api.records import JobFlow, Queue, ResourceQuota
from pyroclast.api.types import QUEUES as QUEUE_TYPE
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client
from pyroclast.kube.watch.informer import Informer
from pyroclast.rules.lookups import FlowView, QueueView
from pyroclast.runtime.in_process.queues import QueueCache, queue_view
from pyroclast_admission import caches
from pyroclast_admission.caches import FlowCache
from tests.unit.running import running_server

QUEUES = [
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


@pytest.mark.parametrize("queue", QUEUES, ids=["bare", "full"])
def test_a_cached_queue_has_the_same_view_as_its_manifest(queue: dict[str, object]) -> None:
    assert queue_view(msgspec.json.decode(orjson.dumps(queue), type=Queue)) == QueueView.of(queue)


async def test_children_of_a_queue_follow_changed_parents_and_removals() -> None:
    async with running_server() as server, Client(load_config(str(server.kubeconfig))) as client:
        cache = QueueCache(Informer(client, QUEUE_TYPE, Queue))
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
