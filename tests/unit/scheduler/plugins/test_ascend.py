"""NPUs of Ascend in plugin deviceshare: which template a request takes, which chips, and what the node's agent is told."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyroclast.api import records
from pyroclast_scheduler.model.fit_errors import Code
from pyroclast_scheduler.plugins.deviceshare.ascend import Ascend
from pyroclast_scheduler.plugins.deviceshare.cards import Card, CardShare, Claim
from pyroclast_scheduler.plugins.deviceshare.configuration import BUILT_IN, Chip, Template, parse
from pyroclast_scheduler.session.node_books import Refused
from tests.scenarios import objects
from tests.unit.scheduler.plugins.test_deviceshare import VIRTUAL, VIRTUAL_CARDS, Cluster

HAMI = {"deviceshare.AscendHAMiVNPUEnable": True}
(BUILT_IN_CHIP,) = BUILT_IN.chips
CHIP = "huawei.com/Ascend310P"
MEMORY = "huawei.com/Ascend310P-memory"
CONNECTED = Chip("Ascend910B", "huawei.com/Ascend910B", "huawei.com/Ascend910B-memory", 65536, 65536, (Template("vir05", 16384),))


def chips(*rows, word="Ascend310P", memory=21527):
    """A node's options; rows: (id, further keys)."""
    listed = [{"id": name, "count": 7, "devmem": memory, "type": word, "health": True, **more} for name, more in rows]
    return {f"huawei.com/{word}": 7 * len(rows), "annotations": {f"hami.io/node-register-{word}": json.dumps(listed)}}


TWO = chips(("a", {}), ("b", {}))


def pod(*containers):
    bodies = [
        {"name": f"c{at}", "resources": {"limits": {k: str(v) for k, v in each.items()}}} for at, each in enumerate(containers)
    ]
    return msgspec.convert({"metadata": {"uid": "new"}, "spec": {"containers": bodies}}, records.Pod)


def cards(*memory, used=(), network=()):
    found = [Card(f"c{at}", at, each, 7) for at, each in enumerate(memory)]
    for at, amount in enumerate(used):
        if amount:
            found[at].users[f"u{at}"] = [CardShare(f"c{at}", amount)]
    for card, number in zip(found, network, strict=False):
        card.network = number
    return found


@pytest.mark.parametrize(
    ("asked", "taken", "template"),
    [
        (1, 3072, "vir01"),
        (3072, 3072, "vir01"),
        (3073, 6144, "vir02"),
        (12288, 12288, "vir04"),
        (12289, 21527, ""),
        (24576, 21527, ""),
    ],
)
def test_requested_npu_memory_is_rounded_up_to_a_template(asked, taken, template):
    (part,) = Ascend(BUILT_IN_CHIP).choose(pod({MEMORY: asked}), records.Node(), cards(21527)).parts
    assert part.memory == taken
    fitted = BUILT_IN_CHIP.fitted(asked)
    assert fitted is not None
    assert fitted.name == template


@given(st.integers(1, 30000))
def test_the_smallest_sufficient_npu_template_is_chosen_up_to_the_chip_capacity(asked):
    fitted = BUILT_IN_CHIP.fitted(asked)
    sizes = [each.memory for each in BUILT_IN_CHIP.templates]
    if asked > BUILT_IN_CHIP.capacity:
        assert fitted is None
    else:
        assert fitted is not None
        assert fitted.memory == min((each for each in sizes if each >= asked), default=BUILT_IN_CHIP.allocatable)


@pytest.mark.parametrize(
    ("containers", "found", "used", "chosen"),
    [
        ([{CHIP: 1}], [21527], (), [["c0"]]),
        ([{CHIP: 1}], [21527, 21527], (3072, 0), [["c1"]]),
        ([{CHIP: 2}], [21527, 21527], (), [["c0", "c1"]]),
        ([{CHIP: 1, MEMORY: 6144}], [21527], (12288,), [["c0"]]),
        ([{MEMORY: 3072}, {}, {MEMORY: 3072}], [21527, 21527], (), [["c0"], ["c1"]]),
    ],
)
def test_containers_of_a_pod_get_distinct_chips_with_enough_free_memory(containers, found, used, chosen):
    claim = Ascend(BUILT_IN_CHIP).choose(pod(*containers), records.Node(), cards(*found, used=used))
    assert [[part.card for part in parts] for parts in claim.containers] == chosen


TOO_FEW = "no enough ascend device available"


@pytest.mark.parametrize(
    ("containers", "found", "used", "why"),
    [
        ([{CHIP: 2}], [21527, 21527], (3072, 0), TOO_FEW),
        ([{CHIP: 3}], [21527, 21527], (), TOO_FEW),
        ([{CHIP: 1, MEMORY: 12288}], [21527], (12288,), TOO_FEW),
        ([{MEMORY: 3072}, {MEMORY: 3072}], [21527], (), TOO_FEW),
        ([{CHIP: 2, MEMORY: 3072}], [21527, 21527], (), "vNPU does not support partial memory allocation"),
        ([{CHIP: 1, MEMORY: 24577}], [21527], (), "no Ascend310P has that much memory"),
    ],
)
def test_an_npu_request_is_unresolvable_only_if_no_chip_could_ever_serve_it(containers, found, used, why):
    with pytest.raises(Refused, match=why) as refused:
        Ascend(BUILT_IN_CHIP).choose(pod(*containers), records.Node(), cards(*found, used=used))
    assert refused.value.code is (Code.UNSCHEDULABLE if why == TOO_FEW else Code.UNRESOLVABLE)


@pytest.mark.parametrize(("policy", "chosen", "score"), [("binpack", "c1", 57), ("spread", "c0", 100), ("", "c0", 0)])
def test_the_schedule_policy_decides_the_chosen_chip_and_its_score(policy, chosen, score):
    kind, there = Ascend(BUILT_IN_CHIP, policy), cards(21527, 21527, used=(0, 6144))
    claim = kind.choose(pod({MEMORY: 6144}), records.Node(), there)
    assert [part.card for part in claim.parts] == [chosen]
    assert round(kind.score(there, claim)) == score


@pytest.mark.parametrize(
    ("networks", "number", "chosen", "score"),
    [
        ((0, 1, 1), 2, {"c1", "c2"}, 10),
        ((0, 1, 1), 3, {"c0", "c1", "c2"}, 10 * 2 / 3),
        ((0, None, 1), 2, {"c0", "c1"}, 0),
    ],
)
def test_chips_of_one_network_are_preferred_and_score_higher(networks, number, chosen, score):
    kind, there = Ascend(CONNECTED), cards(65536, 65536, 65536, network=networks)
    claim = kind.choose(pod({"huawei.com/Ascend910B": number}), records.Node(), there)
    assert {part.card for part in claim.parts} == chosen
    assert kind.score(there, claim) == pytest.approx(score)


@pytest.mark.parametrize(
    ("node", "found"),
    [
        (TWO, ["a", "b"]),
        (chips(("a", {"health": False}), ("b", {})), ["b"]),
        (chips(("a", {"health": False})), []),
        ({CHIP: 1}, None),
        ({CHIP: 1, "annotations": {"hami.io/node-register-Ascend310P": "garbage"}}, None),
        ({CHIP: 1, "annotations": {"hami.io/node-register-Ascend310P": "[]"}}, None),
        ({"annotations": TWO["annotations"]}, None),
    ],
)
def test_a_node_lists_its_healthy_chips_or_none_without_a_valid_registration(node, found):
    there = Ascend(BUILT_IN_CHIP).cards(objects.node(["n", 8, "8Gi", node]))
    assert (None if there is None else [card.name for card in there]) == found


def test_a_bound_pod_gets_npu_annotations_for_the_device_agent_and_the_runtime():
    cluster = Cluster(HAMI, [["n", 8, "8Gi", chips(("a", {}))]])
    bound = cluster.session(["p", "j", "-", 1, "1G", {CHIP: 1, MEMORY: 5000}], ["q", "j", "-", 1, "1G", {CHIP: 1, MEMORY: 20000}])
    assert {name: dict(annotations) for name, annotations in bound.items()} == {
        "p": {
            "hami.io/Ascend310P-devices-to-allocate": "a,Ascend310P,6144,0:;",
            "hami.io/Ascend310P-devices-allocated": "a,Ascend310P,6144,0:;",
            "huawei.com/Ascend310P": '[{"UUID":"a","temp":"vir02"}]',
            "predicate-time": "1800000000",
            "hami.io/vgpu-node": "n",
            "hami.io/vgpu-time": "1800000000",
            "hami.io/bind-phase": "allocating",
            "hami.io/bind-time": "1800000000",
        }
    }


def test_the_annotation_for_a_whole_chip_names_no_template():
    told = Ascend(BUILT_IN_CHIP).annotations(Claim(((CardShare("a", 21527),),)), "n", 1.0)
    assert told["huawei.com/Ascend310P"] == '[{"UUID":"a"}]'


def test_a_chip_in_the_devices_allocated_annotation_stays_taken():
    cluster = Cluster(HAMI, [["n", 8, "8Gi", TWO]])
    asks = {CHIP: 1, "annotations": {"hami.io/Ascend310P-devices-allocated": "a,Ascend310P,21527,0:;"}}
    bound = cluster.session(["old", "j", "n", 1, "1G", asks], ["new", "j", "-", 1, "1G", {CHIP: 1}])
    assert bound["new"]["hami.io/Ascend310P-devices-to-allocate"].startswith("b,")


def test_a_pod_requesting_a_gpu_and_an_npu_is_bound_to_a_node_with_both():
    annotations = {**TWO["annotations"], **VIRTUAL_CARDS["annotations"]}
    only_npu = ["npu", 8, "8Gi", TWO]
    cluster = Cluster({**HAMI, **VIRTUAL}, [only_npu, ["n", 8, "8Gi", {**TWO, **VIRTUAL_CARDS, "annotations": annotations}]])
    (bound,) = cluster.session(["p", "j", "-", 1, "1G", {CHIP: 1, "volcano.sh/vgpu-number": 1}]).values()
    assert (bound["volcano.sh/vgpu-node"], bound["hami.io/vgpu-node"]) == ("n", "n")


CONFIGURED = """
vnpus:
  configs:
  - chipName: 910B3
    commonWord: Ascend910B3
    resourceName: huawei.com/Ascend910B3
    resourceMemoryName: huawei.com/Ascend910B3-memory
    memoryAllocatable: 65536
    memoryCapacity: 65536
    aiCore: 20
    templates: [{name: vir10_3c_32g, memory: 32768, aiCore: 10}, {name: vir05_1c_16g, memory: 16384}]
"""


@pytest.mark.parametrize("text", [CONFIGURED, "vnpus:\n" + CONFIGURED.partition("configs:\n")[2]])
def test_npu_chips_and_templates_are_read_from_the_config_map(text):
    (chip,) = parse(text).chips
    assert [each.name for each in chip.templates] == ["vir05_1c_16g", "vir10_3c_32g"]
    node = ["n", 8, "8Gi", chips(("a", {}), word="Ascend910B3", memory=65536)]
    cluster = Cluster(HAMI, [node])
    body = {"metadata": {"namespace": "kube-system", "name": "volcano-vgpu-device-config"}, "data": {"device-config.yaml": text}}
    cluster.cache.object_changed(None, msgspec.convert(body, records.ConfigMap))
    asks = {"huawei.com/Ascend910B3": 1, "huawei.com/Ascend910B3-memory": 20000}
    (bound,) = cluster.session(["p", "j", "-", 1, "1G", asks]).values()
    assert bound["hami.io/Ascend910B3-devices-to-allocate"] == "a,Ascend910B3,32768,0:;"
    assert cluster.warnings == []


@pytest.mark.parametrize("text", ["", "a: [", "vnpus: 3", "vnpus: [{commonWord: x}]"])
def test_an_invalid_config_map_is_warned_about_and_replaced_by_the_built_in_one(text):
    cluster = Cluster(HAMI, [["n", 8, "8Gi", TWO]])
    body = {"metadata": {"namespace": "kube-system", "name": "volcano-vgpu-device-config"}, "data": {"device-config.yaml": text}}
    cluster.cache.object_changed(None, msgspec.convert(body, records.ConfigMap))
    assert set(cluster.session(["p", "j", "-", 1, "1G", {CHIP: 1}])) == {"p"}
    (warning,) = cluster.warnings
    assert "built-in" in warning


def test_gpu_exclusive_rules_do_not_apply_to_npus():
    arguments = {**HAMI, **VIRTUAL, "deviceshare.GPUExclusiveRules": [{"app": "x"}]}
    cluster = Cluster(arguments, [["n", 8, "16Gi", chips(("a", {}))]])
    wish = {CHIP: 1, MEMORY: 3072, "labels": {"app": "x"}}
    assert cluster.session(*([name, "j", "-", 1, "1Gi", wish] for name in ("p1", "p2"))).keys() == {"p1", "p2"}
