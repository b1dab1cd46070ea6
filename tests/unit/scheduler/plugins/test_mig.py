"""Virtual GPUs on nodes in mode mig: which instance of which card a container gets, and when a card is cut another way."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyroclast.api import records
from pyroclast_scheduler.plugins.deviceshare.cards import Geometry, Profile, pick
from pyroclast_scheduler.plugins.deviceshare.configuration import parse
from pyroclast_scheduler.plugins.deviceshare.vgpu import registered
from tests.unit.scheduler.plugins.test_deviceshare import VIRTUAL, Cluster

GEOMETRIES = (
    Geometry("group1", (Profile("1g.10gb", 10240, 7),)),
    Geometry("group2", (Profile("2g.20gb", 20480, 3), Profile("1g.10gb", 10240, 1))),
    Geometry("group3", (Profile("7g.80gb", 81920, 1),)),
)
TEXT = """
nvidia:
  resourceCountName: volcano.sh/vgpu-number
  knownMigGeometries:
  - models: [A100-SXM4-80GB, A100-PCIE-80GB]
    allowedGeometries:
    - {group: group1, geometries: [{name: 1g.10gb, memory: 10240, count: 7}]}
    - group: group2
      geometries:
      - {name: 2g.20gb, memory: 20480, count: 3}
      - {name: 1g.10gb, memory: 10240, count: 1}
    - {group: group3, geometries: [{name: 7g.80gb, memory: 81920, count: 1}]}
"""
DEVICES = {"namespace": "kube-system", "name": "volcano-vgpu-device-config"}
REGISTERED = {"annotations": {"volcano.sh/node-vgpu-register": "t,4,16384,NVIDIA-Tesla T4,true,hami-core:"}}
A100 = "NVIDIA-NVIDIA A100-SXM4-80GB"


@pytest.mark.parametrize(
    ("taken", "memory", "found"),
    [
        ([], 1, ("group1-0", 10240)),
        ([], 10240, ("group1-0", 10240)),
        ([], 10241, ("group2-0", 20480)),
        ([], 20481, ("group3-0", 81920)),
        ([], 81921, None),
        (["group1-0", "group1-2"], 5, ("group1-1", 10240)),
        (["group1-0"], 20480, None),
        (["group2-0"], 10, ("group2-3", 10240)),
        (["group2-3"], 10, ("group2-0", 20480)),
        (["group2-0", "group2-1", "group2-2"], 20480, None),
        (["group3-0"], 1, None),
        (["gone-0"], 1, None),
    ],
)
def test_the_smallest_sufficient_free_mig_instance_of_the_geometry_in_use_is_picked(taken, memory, found):
    assert pick(GEOMETRIES, taken, memory) == found


@given(st.lists(st.integers(1, 90000), max_size=12))
def test_mig_instances_are_picked_once_and_from_one_geometry(wishes):
    taken: list[str] = []
    for memory in wishes:
        found = pick(GEOMETRIES, taken, memory)
        if found is not None:
            assert found[1] >= memory
            taken.append(found[0])
    assert len(set(taken)) == len(taken)
    assert len({name.rpartition("-")[0] for name in taken}) <= 1


def test_known_mig_geometries_are_read_from_the_config_map():
    assert parse(TEXT).geometries(A100) == GEOMETRIES
    assert parse(TEXT).geometries("NVIDIA-Tesla T4") == ()


@pytest.mark.parametrize(
    ("entries", "cut"),
    [
        (f"a,10,81920,{A100},true,mig:", [True]),
        (f"a,10,81920,{A100},true,hami-core:b,10,81920,{A100},true,mig:", [True, True]),
        (f"a,10,81920,{A100},true,mig:b,10,81920,{A100},true,hami-core:", [False, False]),
        (f"a,10,81920,{A100},true,MIG:", [False]),
        ("a,10,16384,NVIDIA-Tesla T4,true,mig:", [False]),
    ],
)
def test_cards_get_mig_geometries_only_if_the_last_registered_card_is_in_mode_mig(entries, cut):
    cards = registered(entries, parse(TEXT).geometries) or []
    assert [bool(card.geometries) for card in cards] == cut


def cluster(cards="a", mode="mig", text=TEXT, **arguments):
    entries = "".join(f"{name},10,81920,{A100},true,{mode}:" for name in cards)
    options = {
        "volcano.sh/vgpu-number": 10 * len(cards),
        "volcano.sh/vgpu-memory": 81920 * len(cards),
        "volcano.sh/vgpu-cores": 100 * len(cards),
        "annotations": {"volcano.sh/node-vgpu-register": entries},
        "pods": 30,
    }
    made = Cluster({**VIRTUAL, **arguments}, [["n", 80, "80Gi", options]])
    body = {"metadata": DEVICES, "data": {"device-config.yaml": text}}
    made.cache.object_changed(None, msgspec.convert(body, records.ConfigMap))
    return made


def asking(name, memory, node="-", **options):
    return [name, "j", node, 1, "1G", {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": memory, **options}]


def told(bound):
    return {name: annotations["volcano.sh/vgpu-ids-new"] for name, annotations in bound.items()}


def test_containers_get_mig_instances_until_the_card_is_full():
    bound = told(cluster().session(*[asking(f"p{at}", 15000) for at in range(4)]))
    assert sorted(bound.values()) == [f"a[group2-{number}],NVIDIA,20480,0:" for number in range(3)]


@pytest.mark.parametrize(
    ("cards", "taken", "memory", "given"),
    [
        pytest.param("a", "a[group2-1],NVIDIA,20480,0:", 15000, "a[group2-0],NVIDIA,20480,0:", id="the geometry in use"),
        pytest.param("a", "", 81920, "a[group3-0],NVIDIA,81920,0:", id="the geometry that fits"),
        pytest.param("ab", "b[group1-0],NVIDIA,10240,0:", 15000, "a[group2-0],NVIDIA,20480,0:", id="an unused card"),
    ],
)
def test_a_pod_gets_a_free_mig_instance_of_the_geometry_in_use_or_of_an_unused_card(cards, taken, memory, given):
    old = [asking("old", 5, node="n", annotations={"volcano.sh/vgpu-ids-new": taken})] if taken else []
    assert told(cluster(cards).session(*old, asking("new", memory))) == {"new": given}


@pytest.mark.parametrize(
    ("mode", "wanted", "fits"), [("mig", "mig", True), ("mig", "hami-core", False), ("hami-core", "mig", False)]
)
def test_a_pod_with_a_vgpu_mode_annotation_is_bound_only_to_a_node_in_that_mode(mode, wanted, fits):
    bound = cluster(mode=mode).session(asking("p", 5000, annotations={"volcano.sh/vgpu-mode": wanted}))
    assert set(bound) == ({"p"} if fits else set())


def test_gpu_exclusive_rules_do_not_apply_to_mig_instances_of_one_card():
    there = cluster(**{"deviceshare.GPUExclusiveRules": [{"app": "train"}]})
    bound = told(there.session(*[asking(f"p{at}", 5000, labels={"app": "train"}) for at in range(2)]))
    assert sorted(bound.values()) == ["a[group1-0],NVIDIA,10240,0:", "a[group1-1],NVIDIA,10240,0:"]


def test_a_mig_card_without_a_known_geometry_is_shared_by_memory():
    assert told(cluster(text="nvidia: {}").session(asking("p", 5000))) == {"p": "a,NVIDIA,5000,0:"}


def test_resource_names_in_the_config_map_replace_the_default_vgpu_names():
    names = {"resourceCountName": "x.io/n", "resourceMemoryName": "x.io/m", "resourceCoreName": "x.io/c"}
    there = Cluster(VIRTUAL, [["n", 8, "8Gi", {"x.io/n": 4, "x.io/m": 16384, "x.io/c": 100, **REGISTERED}]])
    body = {"metadata": DEVICES, "data": {"device-config.yaml": json.dumps({"nvidia": names})}}
    there.cache.object_changed(None, msgspec.convert(body, records.ConfigMap))
    pods = [["p", "j", "-", 1, "1G", {"x.io/n": 1, "x.io/m": 4000}], asking("unknown", 5)]
    assert told(there.session(*pods)) == {"p": "t,NVIDIA,4000,0:"}


@pytest.mark.parametrize("is_locking", [True, False])
def test_a_node_lock_is_requested_only_if_node_lock_enable_is_true(is_locking):
    there = cluster(**{"deviceshare.NodeLockEnable": is_locking})
    there.session(asking("p", 5000))
    assert there.locks == {"p": "hamivgpu" if is_locking else ""}
