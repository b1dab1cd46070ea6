"""CompositePodGroups: trees of PodGroups that start whole, from the watches to what is decided of them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from pyroclast.api.types import NATIVE_POD_GROUPS
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.cache.group_readers.composite import composite_key
from pyroclast_scheduler.model.sharding import Ring
from pyroclast_scheduler.model.tasks import native_key
from pyroclast_scheduler.replay.capture import taken
from pyroclast_scheduler.replay.decide import decided as decided_again
from pyroclast_scheduler.replay.state import encoded, read
from pyroclast_scheduler.session.ports import Ports
from pyroclast_scheduler.shell.native_conditions import conditions_patch
from pyroclast_scheduler.shell.sharding import RingMember
from tests.scenarios import objects
from tests.unit.scheduler.deciding import committed, decided
from tests.unit.scheduler.natives import SETTINGS, composite, gang, pod, settings, world

KEY = composite_key(objects.NAMESPACE, "c")
QUEUE = "scheduling.volcano.sh/queue-name"
Tree = Mapping[str, Any]


def low(cache: Cache, nodes: Sequence[str], **given: Any) -> None:
    """A group with a running pod on each of these nodes, each of which may go."""
    for i, node in enumerate(nodes):
        cache.natives.group_changed(None, gang(f"low-{i}", 1, **given))
        cache.pod_changed(None, pod(f"low-{i}", f"low-{i}", node=node))


def topology(key: str) -> dict[str, Any]:
    return {"schedulingConstraints": {"topology": [{"key": key}]}}


ZONE, RACK, ALL = topology("zone"), topology("rack"), {"disruptionMode": {"all": {}}}


def add(cache: Cache, tree: Mapping[str, Any], parent: str = "", **given: Any) -> None:
    """Make what `tree` says: composites as (minimum, spec, tree below it), PodGroups as (minimum, spec, number of pods)."""
    for name, (minimum, spec, below) in tree.items():
        own = {**spec, **({"parentCompositePodGroupName": parent} if parent else {})}
        if isinstance(below, dict):
            cache.natives.composite_changed(None, composite(name, minimum, spec=own))
            add(cache, below, name, **given)
        else:
            cache.natives.group_changed(None, gang(name, minimum, spec=own))
            for i in range(below):
                cache.pod_changed(None, pod(f"{name}-{i}", name, **given))


def binds(cache: Cache) -> dict[str, str]:
    """What a session binds: nodes by name of the pod."""
    return {uid.removeprefix("uid-"): node for uid, node in decided(cache, SETTINGS)[1].items()}


def placed(cache: Cache) -> dict[str, int]:
    """How many pods of each PodGroup a session binds."""
    return dict(Counter(name.rpartition("-")[0] for name in binds(cache)))


def cause(cache: Cache, key: str = KEY) -> str:
    outcome, _ = decided(cache, SETTINGS)
    return next(each.message for each in outcome.statuses[key].conditions if each.type == "Unschedulable")


def evicted(cache: Cache, action: str = "preempt, reclaim") -> set[str]:
    _, commits = committed(cache, settings(f"allocate, {action}, backfill"))
    return {each.task.name for commit in commits for each in commit.evictions}


RACKS = {
    f"{zone}{rack}{i}": (1, {"zone": zone, "rack": f"{zone}{rack}"}) for zone, racks in (("a", (2, 1)), ("b", (2, 2)))
    for rack, size in enumerate(racks) for i in range(size)
}  # fmt: skip
"""Zone a: racks of 2 and 1 cpus; zone b: two racks of 2 cpus."""


@dataclass(frozen=True)
class Case:
    nodes: Mapping[str, Any]
    tree: Tree
    want: dict[str, int]
    labels: Mapping[str, set[str]] = field(default_factory=dict)


CASES = {
    "both groups fit": Case({"n": 5}, {"c": (2, {}, {"g": (2, {}, 2), "h": (3, {}, 3)})}, {"g": 2, "h": 3}),
    "one of both does not, so none starts": Case({"n": 4}, {"c": (2, {}, {"g": (2, {}, 2), "h": (3, {}, 3)})}, {}),
    "one group of two is enough": Case({"n": 4}, {"c": (1, {}, {"g": (2, {}, 2), "h": (3, {}, 3)})}, {"g": 2}),
    "the larger one where only it is complete": Case({"n": 4}, {"c": (1, {}, {"g": (2, {}, 1), "h": (3, {}, 3)})}, {"h": 3}),
    "beyond the minimum groups start whole": Case(
        {"n": 5}, {"c": (1, {}, {"g": (2, {}, 2), "h": (2, {}, 2), "k": (2, {}, 2)})}, {"g": 2, "h": 2}
    ),
    "two small groups where a large one leaves no room for a second": Case(
        {"n": 4}, {"c": (2, {}, {"g": (3, {}, 3), "h": (2, {}, 2), "k": (2, {}, 2)})}, {"h": 2, "k": 2}
    ),
    "policy basic asks for one group": Case({"n": 3}, {"c": (None, {}, {"g": (2, {}, 2), "h": (2, {}, 2)})}, {"g": 2}),
    "basic groups in a gang of groups need a pod each": Case(
        {"n": 3}, {"c": (2, {}, {"g": (None, {}, 2), "h": (None, {}, 2)})}, {"g": 2, "h": 1}
    ),
    "basic groups without room for one pod each": Case(
        {"n": 1}, {"c": (2, {}, {"g": (None, {}, 2), "h": (None, {}, 2)})}, {}
    ),
    "a tree of three levels": Case(
        {"n": 6},
        {"c": (2, {}, {"d": (2, {}, {"g": (1, {}, 1), "h": (2, {}, 2)}), "e": (1, {}, {"k": (3, {}, 3)})})},
        {"g": 1, "h": 2, "k": 3},
    ),
    "a failing composite undoes its groups": Case(
        {"n": 5},
        {"c": (2, {}, {"d": (2, {}, {"g": (1, {}, 1), "h": (2, {}, 2)}), "e": (1, {}, {"k": (3, {}, 3)})})},
        {},
    ),
    "all in one zone": Case(
        RACKS, {"c": (2, ZONE, {"g": (2, {}, 2), "h": (2, {}, 2)})}, {"g": 2, "h": 2}, {"zone": {"b"}}
    ),
    "no zone has room for all": Case(RACKS, {"c": (2, ZONE, {"g": (2, {}, 2), "h": (3, {}, 3)})}, {}),
    "each group in a rack of its own": Case(
        RACKS, {"c": (2, ZONE, {"g": (2, RACK, 2), "h": (2, RACK, 2)})}, {"g": 2, "h": 2}, {"zone": {"b"}}
    ),
    "racks of two zones where the whole may be in both": Case(
        RACKS, {"c": (3, {}, {"g": (2, RACK, 2), "h": (2, RACK, 2), "k": (2, RACK, 2)})}, {"g": 2, "h": 2, "k": 2}
    ),
    "no node without the label": Case({"n": 9}, {"c": (1, ZONE, {"g": (1, {}, 1)})}, {}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_composite_podgroup_starts_with_its_minimum_of_complete_groups_or_not_at_all(case: Case):
    cache = world(case.nodes)
    add(cache, case.tree)
    assert placed(cache) == case.want
    labels = {name: size[1] for name, size in case.nodes.items() if isinstance(size, tuple)}
    for key, want in case.labels.items():
        assert {labels[node][key] for node in binds(cache).values()} == want


TREE = {"c": (2, {}, {"g": (2, {}, 2), "h": (3, {}, 3)})}
WHOLE = "CompositePodGroup c: 1 of 2 groups are complete"
_EVENTS = ("c", "g", "h", "pods")


@pytest.mark.parametrize("order", list(itertools.permutations(_EVENTS)), ids="-".join)
def test_a_composite_podgroup_starts_once_complete_and_is_deleted_in_any_order_of_events(order: Sequence[str]):
    cache = world({"n": 5})
    at = {
        "c": [(cache.natives.composite_changed, composite())],
        "g": [(cache.natives.group_changed, gang("g", 2, spec={PARENT: "c"}))],
        "h": [(cache.natives.group_changed, gang("h", 3, spec={PARENT: "c"}))],
        "pods": [(cache.pod_changed, pod(f"{name}-{i}", name)) for name, size in (("g", 2), ("h", 3)) for i in range(size)],
    }
    for i, each in enumerate(order):
        for change, record in at[each]:
            change(None, record)
        assert placed(cache) == ({"g": 2, "h": 3} if i == len(order) - 1 else {})
    for each in order:
        for change, record in at[each]:
            change(record, None)
        assert placed(cache) == {}
    assert not cache.tasks
    assert not cache.jobs.all_facts()
    assert not [*cache.natives.records(), *cache.natives.trees.records()]
    assert [cache.groups.current(key) for key in (KEY, native_key("t", "g"), native_key("t", "h"))] == [None] * 3


@pytest.mark.parametrize(
    ("tree", "want"),
    [
        ({"c": (2, {}, {"g": (2, {}, 2)})}, "CompositePodGroup c: 1 of 2 groups are there"),
        (
            {"c": (2, {}, {"g": (2, {}, 2), "h": (3, {}, 2)})},
            f"{WHOLE}; PodGroup h: 2 of 3 pods present",
        ),
        (
            {"c": (2, {}, {"d": (2, {}, {"g": (2, {}, 1), "h": (1, {}, 1)}), "k": (1, {}, 1)})},
            f"{WHOLE}; CompositePodGroup d: 1 of 2 groups are complete; PodGroup g: 1 of 2 pods present",
        ),
    ],
)
def test_the_unschedulable_message_names_the_incomplete_groups_of_a_composite(tree: Tree, want: str):
    cache = world({"n": 9})
    add(cache, tree)
    assert placed(cache) == {}
    assert cause(cache).endswith(f" PodsMissing: {want}")


def test_the_condition_of_a_group_names_an_unserved_missing_or_cyclic_parent_composite():
    cache = world({"n": 9})
    add(cache, {"g": (1, {"parentCompositePodGroupName": "c"}, 1)})
    key, field_ = native_key(objects.NAMESPACE, "g"), "spec.parentCompositePodGroupName"
    assert cause(cache, key).endswith(f"{field_}: CompositePodGroup c is not served by this scheduler; leave the field empty")
    cache.natives.composites_served()
    assert cause(cache, key).endswith(f"{field_}: CompositePodGroup c does not exist")
    cache.natives.composite_changed(None, composite(spec={"parentCompositePodGroupName": "d"}))
    assert cause(cache, key).endswith(f"{field_}: CompositePodGroup d does not exist")
    cache.natives.composite_changed(None, composite("d", spec={"parentCompositePodGroupName": "c"}))
    assert cause(cache, key).endswith(f"{field_}: CompositePodGroup c is above itself")
    assert placed(cache) == {}


PARENT = "parentCompositePodGroupName"
ABOVE_ITSELF = f"spec.{PARENT}: CompositePodGroup c is above itself"
MISSING = f"spec.{PARENT}: CompositePodGroup e does not exist"


@pytest.mark.parametrize(
    ("parents", "reason", "on_pod_group", "text"),
    [
        ({"c": "d", "d": "c"}, "Invalid", "SchedulerError", ABOVE_ITSELF),
        ({"c": "c"}, "Invalid", "SchedulerError", ABOVE_ITSELF),
        ({"c": "d", "d": "e"}, "Unschedulable", "Unschedulable", MISSING),
    ],
    ids=["a cycle", "itself", "a missing one"],
)
def test_a_composite_with_a_missing_or_cyclic_parent_has_conditions_with_the_reason(
    parents: Mapping[str, str], reason: str, on_pod_group: str, text: str
):
    cache = world({"n": 9})
    add(cache, {"g": (1, {PARENT: "c"}, 1)})
    for name, parent in parents.items():
        cache.natives.composite_changed(None, composite(name, spec={PARENT: parent}))
    keys = [composite_key("t", name) for name in parents]
    assert cache.natives.told_of(native_key("t", "g")) == [native_key("t", "g"), *keys]
    for key in keys:
        found = said(cache, key)
        assert found["CompositePodGroupInitiallyScheduled"] == ("False", reason, text)
        assert found["pyroclast.dev/Queued"] == ("True", "LeftOut", text)
    assert said(cache, native_key("t", "g"))["PodGroupInitiallyScheduled"] == ("False", on_pod_group, text)
    assert {cache.natives.explained_by(key) for key in keys} == {native_key("t", "g")}
    cache.pod_changed(pod("g-0", "g"), None)
    assert decided(cache, SETTINGS)[0].statuses == {}
    assert [cache.natives.shown(key) for key in keys] == [None] * len(keys)  # it has no pods of ours any more


def test_a_composite_reports_its_missing_parent_and_later_the_missing_groups_of_that_parent():
    cache = world({"n": 9})
    add(cache, {"g": (1, {PARENT: "c"}, 1)})
    cache.natives.composite_changed(None, composite("c", 1, spec={PARENT: "e"}))
    assert said(cache, KEY)["CompositePodGroupInitiallyScheduled"] == ("False", "Unschedulable", MISSING)
    cache.natives.composite_changed(None, composite("e", 2))
    found = said(cache, KEY)
    text = "CompositePodGroup e: 1 of 2 groups are there"
    assert found["CompositePodGroupInitiallyScheduled"] == ("False", "Unschedulable", text)
    assert MISSING not in str(found)


def test_sharded_schedulers_refuse_composites_with_a_condition_on_every_object():
    cache = world({"n": 9})
    ring = RingMember(Ring("s-0", 1), cache, ("volcano",), default_queue="default")
    for name, parent in (("c", ""), ("d", "c")):
        cache.natives.composite_changed(None, composite(name, 1, spec={PARENT: parent}))
    ring.native_group_changed(None, gang("g", 1, spec={PARENT: "d"}), NATIVE_POD_GROUPS)
    ring.pod_changed(None, pod("g-0", "g"))
    assert placed(cache) == {}
    want = ("False", "Unschedulable", "schedulers that share Jobs by a hash do not serve CompositePodGroups")
    for name in ("c", "d"):
        assert said(cache, composite_key("t", name))["CompositePodGroupInitiallyScheduled"] == want
    assert said(cache, native_key("t", "g"))["PodGroupInitiallyScheduled"] == want


def test_groups_of_a_deleted_composite_wait_and_start_when_it_is_recreated():
    cache = world({"n": 5})
    add(cache, TREE)
    cache.groups.gone()
    cache.natives.composite_changed(composite(), None)
    assert placed(cache) == {}
    assert cache.groups.gone() == {KEY}
    cache.natives.composite_changed(None, composite(uid="another"))
    assert placed(cache) == {"g": 2, "h": 3}
    assert cache.groups.gone() == {native_key("t", "g"), native_key("t", "h")}
    assert {job.key for job in cache.snapshot().all_jobs.values()} == {KEY}


def test_a_partly_bound_composite_is_completed_and_its_failed_pod_replaced():
    cache = world({"n": 5})
    add(cache, TREE)
    cache.pod_changed(pod("g-0", "g"), pod("g-0", "g", node="n"))
    assert placed(cache) == {"g": 1, "h": 3}
    for name in ("g-1", "h-0", "h-1", "h-2"):
        cache.pod_changed(pod(name, name[0]), pod(name, name[0], node="n"))
    cache.pod_changed(pod("h-2", "h", node="n"), pod("h-2", "h", node="n", phase="Failed"))
    assert placed(cache) == {}
    cache.pod_changed(None, pod("h-3", "h"))
    assert binds(cache) == {"h-3": "n"}


def test_pods_of_a_deleted_group_wait_while_the_rest_of_the_composite_starts():
    cache = world({"n": 9})
    add(cache, {"c": (1, {}, {"g": (2, {}, 2), "h": (3, {}, 3)})})
    spec = {"parentCompositePodGroupName": "c"}
    cache.natives.group_changed(gang("h", 3, spec=spec), None)
    assert placed(cache) == {"g": 2}


def test_a_composite_starts_once_the_lowered_min_count_of_a_group_fits():
    cache = world({"n": 4})
    add(cache, TREE)
    assert placed(cache) == {}
    before, after = (gang("h", minimum, spec={"parentCompositePodGroupName": "c"}) for minimum in (3, 2))
    cache.natives.group_changed(before, after)
    assert placed(cache) == {"g": 2, "h": 2}


@pytest.mark.parametrize(
    ("priority", "scheduler", "text"),
    [
        (5, "volcano", "all pods in a single pod group should have the same priority as the pod group's priority, got 5 and 0"),
        (0, "x", 'all pods in a single pod group should have the same .spec.schedulerName set, got: "volcano" and "x"'),
    ],
)
def test_a_pod_of_another_priority_or_scheduler_blocks_the_whole_composite(priority: int, scheduler: str, text: str):
    cache = world({"n": 9})
    add(cache, TREE)
    cache.pod_changed(None, pod("x", "h", priority=priority, scheduler=scheduler))
    assert placed(cache) == {}
    assert cause(cache).endswith(text)


DEEP = {"c": (1, {}, {"d": (1, {}, {"e": (1, {}, {"f": (1, {}, {"g": (1, {}, 1)})})})})}
OTHER = {"c": (1, {"workloadRef": {"workloadName": "w"}}, {"g": (1, {"workloadRef": {"workloadName": "x"}}, 1)})}


def nested(levels: int) -> Tree:
    """A tree with one group in each level."""
    tree: Any = (1, {}, 1)
    for level in range(levels - 1, 0, -1):
        tree = (1, {}, {("g" if level == levels - 1 else f"d{level}"): tree})
    return {"c": tree}


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        (nested(600), "the groups below CompositePodGroup c have more than 16 levels with it; at most 4 are expected"),
        (DEEP, "the groups below CompositePodGroup c have 5 levels with it; at most 4 are expected"),
        (
            OTHER,
            "PodGroup g: spec.workloadRef.workloadName: x; w is expected, as CompositePodGroup c says",
        ),
    ],
    ids=["very many levels", "too many levels", "two Workloads"],
)
def test_a_composite_with_too_many_levels_or_two_workloads_is_refused_as_invalid(tree: Tree, text: str):
    cache = world({"n": 9})
    add(cache, tree)
    assert placed(cache) == {}
    assert said(cache, KEY)["CompositePodGroupInitiallyScheduled"] == ("False", "Invalid", text)
    assert said(cache, native_key("t", "g"))["PodGroupInitiallyScheduled"] == ("False", "SchedulerError", text)


def test_bound_pods_fix_the_topology_domains_of_their_group_and_composite():
    cache = world(RACKS)
    add(cache, {"c": (2, ZONE, {"g": (1, RACK, 0), "h": (1, {}, 1)})})
    cache.pod_changed(None, pod("g-0", "g", node="a00"))
    cache.pod_changed(None, pod("g-1", "g"))
    nodes = binds(cache)
    assert nodes["g-1"] == "a01"
    assert nodes["h-0"] == "a10"


@pytest.mark.parametrize(
    ("whole", "of_part", "want"),
    [({}, {}, {"g-0"}), (ALL, {}, {"g-0", "g-1", "h-0"}), ({}, ALL, {"g-0", "g-1"})],
    ids=["one by one", "the whole tree", "a part"],
)
def test_disruption_mode_all_evicts_the_whole_composite_or_group_with_a_pod(whole: Tree, of_part: Tree, want: set[str]):
    """The pod of higher priority needs the place of g-0 alone."""
    cache = world({"n0": (1, {"x": "y"}), "n1": 1, "n2": 1})
    add(cache, {"low": (2, whole, {"g": (1, of_part, 0), "h": (1, {}, 0)})})
    for name, node in (("g-0", "n0"), ("g-1", "n1"), ("h-0", "n2")):
        cache.pod_changed(None, pod(name, name[0], node=node))
    cache.natives.group_changed(None, gang("high", 1, spec={"priority": 9}))
    cache.pod_changed(None, pod("high-0", "high", priority=9, spec={"nodeSelector": {"x": "y"}}))
    assert evicted(cache) == want


def test_preemption_evicts_only_for_complete_groups_and_only_if_the_composite_can_start():
    high = {"priority": 9}
    for minimum, want in ((1, 2), (2, 0)):
        cache = world({f"n{i}": 1 for i in range(4)})
        cache.natives.group_changed(None, gang("low", 1))
        for i in range(4):
            cache.pod_changed(None, pod(f"low-{i}", "low", node=f"n{i}"))
        add(cache, {"c": (minimum, high, {"g": (5, {}, 5), "h": (2, {}, 2)})}, priority=9)
        assert len(evicted(cache)) == want


CHOICES = {
    "the part that fits, not the first one": (4, 1, {"g": (5, {}, 5), "h": (2, {}, 2)}, 2),
    "the smallest part, although it comes last": (4, 1, {"g": (3, {}, 3), "h": (2, {}, 2)}, 2),
    "two small parts, as a large one leaves no room for another": (4, 2, {"g": (3, {}, 3), "h": (2, {}, 2), "k": (2, {}, 2)}, 4),
    "no pod beyond the minimum of a part": (4, 1, {"g": (2, {}, 4)}, 2),
    "nothing for a part of a part that fails": (4, 1, {"d": (2, {}, {"g": (1, {}, 1), "h": (5, {}, 5)}), "k": (4, {}, 4)}, 4),
    "parts of parts": (4, 2, {"d": (1, {}, {"g": (1, {}, 1), "h": (4, {}, 4)}), "k": (2, {}, 2)}, 3),
    "a part that lacks pods is passed over": (4, 1, {"g": (2, {}, 1), "h": (3, {}, 3)}, 3),
    "nobody, where too few parts have room": (4, 2, {"g": (3, {}, 3), "h": (2, {}, 2)}, 0),
}


@pytest.mark.parametrize("action", ["preempt", "gangpreempt"])
@pytest.mark.parametrize(("nodes", "minimum", "parts", "want"), CHOICES.values(), ids=CHOICES.keys())
def test_preemption_evicts_only_for_as_many_groups_as_the_composite_needs(
    action: str, nodes: int, minimum: int, parts: Tree, want: int
):
    cache = world({f"n{i}": 1 for i in range(nodes)})
    low(cache, [f"n{i}" for i in range(nodes)])
    add(cache, {"c": (minimum, {"priority": 9}, parts)}, priority=9)
    assert len(evicted(cache, action)) == want


RECLAIMS = {
    "the part that fits": (1, {"g": (5, {}, 5), "h": (2, {}, 2)}, 2),
    "no more than the queue deserves": (1, {"g": (3, {}, 3)}, 0),
    "two small parts": (2, {"g": (2, {}, 2), "h": (1, {}, 1), "k": (1, {}, 1)}, 2),
}


@pytest.mark.parametrize("action", ["reclaim", "gangreclaim"])
@pytest.mark.parametrize(("minimum", "parts", "want"), RECLAIMS.values(), ids=RECLAIMS.keys())
def test_reclaim_evicts_only_for_as_many_groups_as_the_composite_needs(action: str, minimum: int, parts: Tree, want: int):
    cache = world({f"n{i}": 1 for i in range(4)}, *(["q" + each, {"deserved": {"cpu": "2"}}] for each in "ab"))
    low(cache, [f"n{i}" for i in range(4)], labels={QUEUE: "qa"})
    add(cache, {"c": (minimum, {}, parts)}, labels={QUEUE: "qb"})
    assert len(evicted(cache, action)) == want


@pytest.mark.parametrize("action", ["reclaim", "gangreclaim"])
def test_reclaim_skips_a_group_that_exceeds_the_deserved_share_of_its_queue(action: str):
    """The part of one large pod lacks fewest pods, and asks for more than the queue deserves."""
    cache = world({"n": 4}, *(["q" + each, {"deserved": {"cpu": "2"}}] for each in "ab"))
    low(cache, ["n"] * 4, labels={QUEUE: "qa"})
    add(cache, {"c": (1, {}, {"g": (1, {}, 0), "h": (2, {}, 2)})}, labels={QUEUE: "qb"})
    cache.pod_changed(None, pod("g-0", "g", cpu=3, labels={QUEUE: "qb"}))
    assert len(evicted(cache, action)) == 2


def test_preemption_evicts_in_a_topology_domain_that_can_hold_the_composite():
    cache = world(RACKS)
    low(cache, list(RACKS))
    add(cache, {"c": (2, {"priority": 9, **ZONE}, {"g": (2, RACK, 2), "h": (2, RACK, 2)})}, priority=9)
    assert evicted(cache) == {f"low-{i}" for i, name in enumerate(RACKS) if name.startswith("b")}


def test_a_composite_with_preemption_policy_never_evicts_no_pod():
    cache = world({"n": 1})
    low(cache, ["n"])
    add(cache, {"c": (1, {"priority": 9, "preemptionPolicy": "Never"}, {"g": (1, {}, 1)})}, priority=9)
    assert evicted(cache) == set()


def said(cache: Cache, key: str) -> dict[str, tuple[str, str, str]]:
    """What would be written on an object: status, reason and message by type."""
    outcome, _ = decided(cache, SETTINGS)
    for job, status in outcome.statuses.items():
        cache.groups.believe(job, status)
    group = cache.natives.shown(key)
    assert group is not None
    patch = conditions_patch(group, "2026-01-01T00:00:00Z")
    listed = () if patch is None else patch["status"]["conditions"]
    return {each["type"]: (each["status"], each["reason"], each["message"]) for each in listed}


def test_each_composite_and_group_of_a_tree_has_its_own_scheduling_condition():
    cache = world({"n": 5})
    add(cache, {"c": (1, {}, {"d": (1, {}, {"g": (2, {}, 2)}), "h": (3, {}, 2)})})
    keys = {"c": KEY, "d": composite_key("t", "d"), "g": native_key("t", "g"), "h": native_key("t", "h")}
    assert set(cache.natives.told_of(KEY)) == set(keys.values())
    assert {cache.natives.explained_by(key) for key in keys.values()} == {KEY}
    for i in range(2):
        cache.pod_changed(pod(f"g-{i}", "g"), pod(f"g-{i}", "g", node="n"))
    found = {name: said(cache, key) for name, key in keys.items()}
    assert found["c"]["CompositePodGroupInitiallyScheduled"][:2] == ("True", "Scheduled")
    assert found["d"]["CompositePodGroupInitiallyScheduled"][:2] == ("True", "Scheduled")
    assert found["g"]["PodGroupInitiallyScheduled"][:2] == ("True", "Scheduled")
    assert found["h"]["PodGroupInitiallyScheduled"] == ("False", "Unschedulable", "PodGroup h: 2 of 3 pods present")


def test_a_composite_with_racks_for_its_groups_binds_its_pods_to_the_same_nodes_in_a_replay():
    cache = world(RACKS)
    add(cache, CASES["each group in a rack of its own"].tree)
    cache.pod_changed(None, pod("x", "g", scheduler="default-scheduler"))
    cache.pod_changed(pod("x", "g", scheduler="default-scheduler"), None)
    state = read(b'{"replay": ' + b"".join(encoded(taken(cache, SETTINGS, Ports(objects.NOW)))) + b"}")
    again = decided_again(state).binds
    racks = [{RACKS[again[f"t/{name}-{i}"]][1]["rack"] for i in range(2)} for name in ("g", "h")]
    assert [len(each) for each in racks] == [1, 1], "each group is in one rack"
    assert again == {f"t/{name}": node for name, node in binds(cache).items()}
