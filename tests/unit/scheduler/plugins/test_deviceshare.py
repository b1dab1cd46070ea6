"""Plugin deviceshare: cards chosen one pod after another, kept over sessions as found anew, and told to the node's agent."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyroclast.api import records
from pyroclast_scheduler import registry
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.plugins.deviceshare.cards import CardShare, Claim
from pyroclast_scheduler.plugins.deviceshare.vgpu import Vgpu, decode, encode, registered
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.configuration import Configuration, PluginEntry
from pyroclast_scheduler.session.node_books import NodeBook, Refused
from tests.counts import ONE_IN
from tests.scenarios import objects
from tests.scenarios.runner import feed
from tests.unit.scheduler.deciding import committed, decided

BY_MEMORY = {"deviceshare.GPUSharingEnable": True}
BY_NUMBER = {"deviceshare.GPUNumberEnable": True}
VIRTUAL = {"deviceshare.VGPUEnable": True}
CARDS = {"volcano.sh/gpu-memory": 16, "volcano.sh/gpu-number": 2}
VIRTUAL_CARDS = {
    "volcano.sh/vgpu-number": 8,
    "volcano.sh/vgpu-memory": 16,
    "volcano.sh/vgpu-cores": 200,
    "annotations": {"volcano.sh/node-vgpu-register": "a,4,8,NVIDIA-T4,true,hami-core:b,4,8,NVIDIA-T4,true,hami-core:"},
}


class Cluster:
    """Sessions one after another, over the same cache and memory."""

    def __init__(self, arguments: Mapping[str, Any], nodes: list[Any]) -> None:
        self.cache = Cache()
        self.memory: dict[str, Any] = {}
        self.warnings: list[str] = []
        self.locks: dict[str, str] = {}
        self.entry = PluginEntry("deviceshare", arguments=dict(arguments))
        feed(self.cache, {"nodes": nodes, "queues": [["q", {}]], "podgroups": [["j", "q", 1]], "pods": []})

    def session(self, *pods: list[Any]) -> dict[str, Mapping[str, str]]:
        """The annotations with which the pods are bound, by the pod's name."""
        for pod in pods:
            self.cache.pod_changed(None, objects.pod(pod))
        settings = Configuration(("allocate",), ((PluginEntry("gang"), PluginEntry("predicates"), self.entry),))
        outcome, commits = committed(self.cache, settings, memory=self.memory)
        self.warnings += outcome.warnings
        found = {}
        for commit in commits:
            for binds in commit.binds:
                for uid, _ in binds.placed:
                    (preparation,) = binds.preparations[uid]
                    found[self.cache.tasks[uid].name] = preparation.annotations
                    self.locks[self.cache.tasks[uid].name] = preparation.node_lock
        return found


def indices(bound: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    return {name: annotations["volcano.sh/gpu-index"] for name, annotations in bound.items()}


def bound_cards(arguments, cards, *asks):
    """The cards of pods of one session that ask for so much."""
    pods = [[f"p{at}", "j", "-", 1, "1G", each] for at, each in enumerate(asks)]
    return indices(Cluster(arguments, [["n", 8, "8Gi", cards]]).session(*pods))


def test_pods_of_one_session_are_bound_until_the_memory_of_all_cards_is_used():
    assert sorted(bound_cards(BY_MEMORY, CARDS, *[{"volcano.sh/gpu-memory": 4}] * 5).values()) == ["0", "0", "1", "1"]


def test_a_gpu_number_request_gets_that_many_whole_cards():
    assert bound_cards(BY_NUMBER, CARDS, {"volcano.sh/gpu-number": 2}) == {"p0": "0,1"}


@pytest.mark.parametrize(
    ("asks", "count"), [({}, 2), ({"volcano.sh/vgpu-memory-percentage": 50}, 4), ({"volcano.sh/vgpu-memory": 2}, 8)]
)
def test_a_virtual_gpu_takes_its_memory_or_percentage_and_else_the_whole_card(asks, count):
    cluster = Cluster(VIRTUAL, [["n", 99, "99Gi", VIRTUAL_CARDS]])
    pods = [[f"p{at}", "j", "-", 1, "1G", {"volcano.sh/vgpu-number": 1, **asks}] for at in range(9)]
    assert len(cluster.session(*pods)) == count


def test_a_card_stays_taken_before_the_pod_carries_its_annotation():
    cluster = Cluster(BY_MEMORY, [["n", 8, "8Gi", CARDS]])
    asks = {"volcano.sh/gpu-memory": 5}
    assert indices(cluster.session(["p", "j", "-", 1, "1G", asks])) == {"p": "0"}
    cluster.cache.pod_changed(objects.pod(["p", "j", "-", 1, "1G", asks]), objects.pod(["p", "j", "n", 1, "1G", asks]))
    assert indices(cluster.session(["other", "j", "-", 1, "1G", asks])) == {"other": "1"}


def test_an_unhealthy_card_is_not_assigned():
    broken = {**CARDS, "annotations": {"volcano.sh/gpu-unhealthy-ids": "0"}}
    assert bound_cards(BY_MEMORY, broken, {"volcano.sh/gpu-memory": 5}) == {"p0": "1"}


def test_a_pod_without_device_requests_is_bound_to_a_node_without_cards():
    cluster = Cluster(BY_MEMORY, [["n", 8, "8Gi"]])
    cluster.cache.pod_changed(None, objects.pod(["p", "j", "-", 1, "1G"]))
    settings = Configuration(("allocate",), ((PluginEntry("predicates"), cluster.entry),))
    assert decided(cluster.cache, settings)[1] == {"t-p": "n"}


def test_a_bound_pod_gets_vgpu_annotations_for_the_device_agent():
    cluster = Cluster(VIRTUAL, [["n", 8, "8Gi", VIRTUAL_CARDS]])
    asks = {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 6, "volcano.sh/vgpu-cores": 30}
    bound = cluster.session(*[[f"p{at}", "j", "-", 1, "1G", asks] for at in range(2)])
    told = {name: annotations["volcano.sh/vgpu-ids-new"] for name, annotations in bound.items()}
    assert sorted(told.values()) == ["a,NVIDIA,6,30:", "b,NVIDIA,6,30:"]
    assert {annotations["volcano.sh/vgpu-node"] for annotations in bound.values()} == {"n"}
    assert {annotations["volcano.sh/bind-phase"] for annotations in bound.values()} == {"allocating"}


def test_gpu_exclusive_rules_put_matching_pods_on_different_cards():
    rules = {**VIRTUAL, "deviceshare.GPUExclusiveRules": [{"app": "train"}]}
    cluster = Cluster(rules, [["n", 8, "8Gi", VIRTUAL_CARDS]])
    asks = {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 1, "labels": {"app": "train"}}
    bound = cluster.session(*[[f"p{at}", "j", "-", 1, "1G", asks] for at in range(3)])
    assert sorted(each["volcano.sh/vgpu-ids-new"][0] for each in bound.values()) == ["a", "b"]


@pytest.mark.parametrize(("annotation", "fits"), [("a", {"a"}), ("x", set())])
def test_the_annotation_vgpu_use_gpuuuid_restricts_a_pod_to_the_named_cards(annotation, fits):
    cluster = Cluster(VIRTUAL, [["n", 8, "8Gi", VIRTUAL_CARDS]])
    asks = {"volcano.sh/vgpu-number": 1, "annotations": {"volcano.sh/vgpu-use-gpuuuid": annotation}}
    bound = cluster.session(["p", "j", "-", 1, "1G", asks])
    assert {each["volcano.sh/vgpu-ids-new"][0] for each in bound.values()} == fits


@pytest.mark.parametrize("text", ["a", "a,b,c,d,e,f:", "a,1,x,t,true,m:", ""])
def test_a_malformed_vgpu_register_annotation_yields_no_cards(text):
    assert registered(text) is None


def test_a_node_with_a_malformed_vgpu_register_annotation_does_not_block_other_nodes():
    broken = {**VIRTUAL_CARDS, "annotations": {"volcano.sh/node-vgpu-register": "garbage"}}
    cluster = Cluster(VIRTUAL, [["bad", 8, "8Gi", broken], ["good", 8, "8Gi", VIRTUAL_CARDS]])
    bound = cluster.session(["p", "j", "-", 1, "1G", {"volcano.sh/vgpu-number": 1}])
    assert bound["p"]["volcano.sh/vgpu-node"] == "good"


def test_enabling_two_device_sharing_modes_is_warned_about():
    arguments = Arguments({**BY_MEMORY, **VIRTUAL})
    registry.plugins()["deviceshare"](arguments)
    assert any("only one of" in warning for warning in arguments.warnings)


_PARTS = st.builds(
    CardShare,
    st.text("abc0-", min_size=1),
    st.integers(0, 1 << 40),
    st.integers(0, 100),
    st.sampled_from(["", "group1-0", "g-12"]),
)


@given(st.lists(st.lists(_PARTS, max_size=4).map(tuple), min_size=1, max_size=4).map(tuple).map(Claim))
def test_an_encoded_vgpu_claim_decodes_to_the_same_claim(claim):
    text = encode(claim)
    assert (decode(text) or Claim(((),))) == claim


def test_binpack_prefers_the_used_card_and_spread_the_unused_card():
    pod = msgspec.convert(
        {"spec": {"containers": [{"name": "c", "resources": {"limits": {"volcano.sh/vgpu-memory": "4"}}}]}}, records.Pod
    )
    cards = registered("a,4,8,NVIDIA-T4,true,m:b,4,8,NVIDIA-T4,true,m:") or []
    cards[1].users["other"] = [CardShare("b", 2)]
    node = records.Node()
    packed, spread = Vgpu("binpack"), Vgpu("spread")
    assert [part.card for part in packed.choose(pod, node, cards).parts] == ["b"]
    assert packed.score(cards, packed.choose(pod, node, cards)) == 75
    assert [part.card for part in spread.choose(pod, node, cards).parts] == ["a"]
    assert spread.score(cards, spread.choose(pod, node, cards)) == 100


@pytest.mark.parametrize(("slots", "does_fit"), [(1, False), (2, True)])
def test_each_container_takes_one_slot_of_a_card(slots, does_fit):
    limits = {"limits": {"volcano.sh/vgpu-memory": "1"}}
    body = {"metadata": {"uid": "u"}, "spec": {"containers": [{"name": name, "resources": limits} for name in "ab"]}}
    pod, cards = msgspec.convert(body, records.Pod), registered(f"c,{slots},8,NVIDIA-T4,true,m:") or []
    if does_fit:
        assert [part.card for part in Vgpu().choose(pod, records.Node(), cards).parts] == ["c", "c"]
    else:
        with pytest.raises(Refused):
            Vgpu().choose(pod, records.Node(), cards)


def test_a_card_with_zero_memory_does_not_prevent_placement():
    for policy in ("binpack", "spread", ""):
        cluster = Cluster(
            {**VIRTUAL, "deviceshare.SchedulePolicy": policy, "deviceshare.ScheduleWeight": 1},
            [
                [name, 4, "8Gi", {**VIRTUAL_CARDS, "annotations": {"volcano.sh/node-vgpu-register": "a,4,0,NVIDIA-T4,true,m:"}}]
                for name in ("n1", "n2")
            ],
        )
        assert cluster.session(["p", "j", "-", 1, "1Gi", {"volcano.sh/vgpu-number": 1}])


RULES = {"deviceshare.GPUExclusiveRules": [{"app": "p"}]}
SETTINGS = {
    "memory": BY_MEMORY,
    "number": BY_NUMBER,
    "virtual": VIRTUAL,
    "virtual, by score": VIRTUAL | {"deviceshare.ScheduleWeight": 10, "deviceshare.SchedulePolicy": "binpack"},
    "virtual, with rules": VIRTUAL | RULES | {"deviceshare.ScheduleWeight": 10, "deviceshare.SchedulePolicy": "spread"},
}


def node(name, draw):
    count, memory = draw.randint(1, 3), draw.choice((8, 16))
    types = [draw.choice(("NVIDIA-T4", "NVIDIA-A100")) for _ in range(count)]
    entries = "".join(f"{name}-{at},{draw.randint(1, 4)},{memory},{each},true,hami-core:" for at, each in enumerate(types))
    vgpu = {f"volcano.sh/vgpu-{each}": 100 for each in ("number", "memory", "cores")}
    return [name, 8, "16Gi", CARDS | vgpu | {"annotations": {"volcano.sh/node-vgpu-register": entries}}]


def pod(number, draw, settings):
    options = {"labels": {"app": draw.choice("pqr")}}
    if settings is BY_MEMORY:
        options["volcano.sh/gpu-memory"] = draw.choice((2, 4, 9))
    elif settings is BY_NUMBER:
        options["volcano.sh/gpu-number"] = draw.choice((1, 2))
    else:
        options |= {"volcano.sh/vgpu-number": draw.choice((1, 1, 2)), "volcano.sh/vgpu-memory": draw.choice((2, 4, 9))}
        policy = draw.choice(({}, {}, {"volcano.sh/vgpu-podgroup-policy": "spread"}, {"nvidia.com/use-gputype": "A100"}))
        options["annotations"] = policy
    return [f"p{number}", draw.choice("jk"), "-", draw.choice((0.1, 0.2)), "1M", options]


def bound(seed, settings):
    draw = random.Random(seed)
    cluster = Cluster(settings, [node(f"n{at}", draw) for at in range(draw.randint(1, 4))])
    feed(cluster.cache, {"nodes": [], "queues": [], "podgroups": [["k", "q", 1]], "pods": []})
    number, found = 0, []
    for _ in range(3):
        pods = [pod(number + at, draw, settings) for at in range(draw.randint(1, 6))]
        number += len(pods)
        found.append(cluster.session(*pods))
    return found


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_cached_device_results_give_the_same_binds_as_recomputed_results(settings, monkeypatch):
    kept = [bound(seed, settings) for seed in range(24 // ONE_IN)]
    assert any(any(sessions) for sessions in kept)
    monkeypatch.setattr(NodeBook, "_examined", anew)
    assert [bound(seed, settings) for seed in range(24 // ONE_IN)] == kept


def anew(self, task, nodes, examined=NodeBook._examined):
    self._results.clear()
    return examined(self, task, nodes)
