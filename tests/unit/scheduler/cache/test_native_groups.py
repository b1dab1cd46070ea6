"""Kubernetes' own PodGroups, from the watches to what is decided of them."""

from __future__ import annotations

from typing import Any

import pytest

from pyroclast.api.types import NATIVE_POD_GROUPS
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.model.tasks import native_key
from pyroclast_scheduler.replay.capture import taken
from pyroclast_scheduler.replay.decide import decided as decided_again
from pyroclast_scheduler.replay.state import encoded, read
from pyroclast_scheduler.session.ports import Ports
from pyroclast_scheduler.shell.explain_server import finder
from tests.scenarios import objects
from tests.unit.scheduler.deciding import committed, decided
from tests.unit.scheduler.natives import SETTINGS, WITHOUT_ENQUEUE, gang, namespace, pod, settings, world

KEY = native_key(objects.NAMESPACE, "g")
ZONES = {f"{zone}{i}": (1, {"zone": zone}) for zone, size in (("a", 2), ("b", 4), ("c", 3)) for i in range(size)}
ALL = {"disruptionMode": {"all": {}}}
BY_ZONE = {"schedulingConstraints": {"topology": [{"key": "zone"}]}}


NARROW = "TopologyTooNarrow: not now: no value of node label zone has nodes with room for the gang: 3 values"


def binds(cache: Cache) -> dict[str, str]:
    """What a session binds: nodes by name of the pod."""
    return {uid.removeprefix("uid-"): node for uid, node in decided(cache, SETTINGS)[1].items()}


def evicted(cache: Cache) -> set[str]:
    """The pods that a session evicts."""
    _, commits = committed(cache, WITHOUT_ENQUEUE)
    return {each.task.name for commit in commits for each in commit.evictions}


def cause(cache: Cache) -> str:
    """Why the group waits, as its status says it."""
    outcome, _ = decided(cache, SETTINGS)
    return next(each.message for each in outcome.statuses[KEY].conditions if each.type == "Unschedulable")


def add(cache: Cache, count: int, group: str = "g", **given: Any) -> None:
    for i in range(count):
        cache.pod_changed(None, pod(f"{group}-{given.get('first', 0) + i}", group, **given))


def submit(cache: Cache, count: int, minimum: int | None = 3, name: str = "g", **given: Any) -> None:
    """A group, and so many pods of it."""
    cache.natives.group_changed(None, gang(name, minimum, **given))
    add(cache, count, name)


def test_a_gang_with_more_pods_than_room_binds_as_many_as_fit():
    cache = world({"n": 3})
    submit(cache, 5)
    assert len(binds(cache)) == 3


def test_pods_wait_until_their_podgroup_exists():
    cache = world({"n": 3})
    add(cache, 3)
    assert binds(cache) == {}
    cache.natives.group_changed(None, gang())
    assert len(binds(cache)) == 3


def test_a_waiting_gang_follows_changes_of_its_min_count():
    cache = world({"n": 2})
    submit(cache, 3, 3)
    assert binds(cache) == {}
    cache.natives.group_changed(gang(minimum=3), gang(minimum=4))
    assert binds(cache) == {}
    cache.natives.group_changed(gang(minimum=4), gang(minimum=2))
    assert len(binds(cache)) == 2


def test_pods_of_a_basic_policy_podgroup_start_independently():
    cache = world({"n": 2})
    submit(cache, 3, None)
    assert len(binds(cache)) == 2


def test_of_two_gangs_that_do_not_fit_together_one_starts_whole():
    cache = world({"n": 4})
    for name in ("g", "h"):
        cache.natives.group_changed(None, gang(name))
        add(cache, 3, name)
    assert sorted(binds(cache)) in (["g-0", "g-1", "g-2"], ["h-0", "h-1", "h-2"])


def test_a_replacement_pod_starts_after_a_delay_when_its_peers_succeeded():
    now = [0.0]
    cache = world({"n": 1}, now=now)
    cache.natives.group_changed(None, gang(started=True))
    for name in ("d", "e"):
        cache.pod_changed(None, pod(name, node="n", phase="Succeeded"))
    add(cache, 1)
    assert binds(cache) == {}
    now[0] = 3.0
    cache.recheck()
    assert binds(cache) == {"g-0": "n"}


def test_a_gang_partly_bound_before_a_scheduler_restart_is_completed():
    cache = world({"n": 3})
    submit(cache, 3)
    cache.pod_changed(pod("g-0"), pod("g-0", node="n"))
    assert binds(cache) == {"g-1": "n", "g-2": "n"}


def test_pods_of_a_recreated_podgroup_start_and_leave_nothing_in_the_cache_once_deleted():
    cache = world({"n": 3})
    submit(cache, 3)
    cache.natives.group_changed(gang(), None)
    assert binds(cache) == {}
    cache.natives.group_changed(None, gang(uid="another"))
    assert len(binds(cache)) == 3
    assert cache.groups.gone() == {KEY}
    cache.natives.group_changed(gang(uid="another"), None)
    for i in range(3):
        cache.pod_changed(pod(f"g-{i}"), None)
    assert binds(cache) == {}
    assert not cache.tasks
    assert not cache.jobs.all_facts()
    assert not list(cache.natives.records())
    assert cache.groups.current(KEY) is None


def test_native_and_volcano_podgroups_of_one_name_are_separate_jobs():
    cache = world({"n": 2})
    cache.natives.group_changed(None, gang())
    cache.group_changed(None, objects.pod_group(["g", "default", 2]))
    add(cache, 2)
    for i in range(2):
        cache.pod_changed(None, objects.pod([f"v{i}", "g", "-", 1, "0"]))
    assert sorted(binds(cache)) == ["t-v0", "t-v1"]
    assert {job.key for job in cache.snapshot().all_jobs.values()} == {"t/g", KEY}


def test_a_gang_with_pods_of_two_schedulers_or_priorities_is_refused():
    cache = world({"n": 9})
    submit(cache, 3)
    cache.pod_changed(None, pod("x", scheduler="default-scheduler"))
    assert binds(cache) == {}
    assert 'same .spec.schedulerName set, got: "volcano" and "default-scheduler"' in cause(cache)
    cache.pod_changed(pod("x", scheduler="default-scheduler"), None)
    assert len(binds(cache)) == 3
    cache.pod_changed(None, pod("x", priority=5))
    assert binds(cache) == {}
    assert "same priority as the pod group's priority, got 5 and 0" in cause(cache)


@pytest.mark.parametrize(("count", "zone"), [(4, "b"), (3, "c")], ids=["fits most pods", "fullest of equally fitting ones"])
def test_a_gang_is_placed_in_the_best_fitting_topology_domain(count: int, zone: str):
    cache = world(ZONES | {"z": (9, {})})
    submit(cache, count, spec=BY_ZONE)
    assert [node[0] for node in binds(cache).values()] == [zone] * count


def test_bound_pods_fix_the_topology_domain_of_their_gang():
    cache = world(ZONES)
    cache.natives.group_changed(None, gang(spec=BY_ZONE, started=True))
    cache.pod_changed(None, pod("first", node="b0"))
    add(cache, 2)
    found = binds(cache)
    assert len(found) == 2
    assert {node[0] for node in found.values()} == {"b"}


def test_a_gang_with_bound_pods_in_two_topology_domains_is_refused():
    cache = world(ZONES)
    cache.natives.group_changed(None, gang(spec=BY_ZONE))
    for name, node in (("x", "a0"), ("y", "b0")):
        cache.pod_changed(None, pod(name, node=node))
    add(cache, 2)
    outcome, found = decided(cache, SETTINGS)
    assert found == {}
    why = "cannot determine domain for already scheduled pods: more than 1 domain found for pod group: a, b"
    assert all(why in each.message and each.reason == "Unschedulable" for each in outcome.waiting if each.task.name[0] == "p")
    assert f"NoNodeAllowed: not now: {why}" in outcome.statuses[KEY].conditions[-1].message


@pytest.mark.parametrize(
    ("nodes", "count", "minimum", "spec", "why"),
    [
        ({"n": 2}, 3, 3, {}, "AboveCluster: never: it asks for 3 cpu in all, and the cluster has 2 cpu"),
        ({"n": 3}, 2, 3, {}, "PodsMissing: 2 of 3 pods present"),
        (ZONES | {"z": (9, {})}, 5, 5, BY_ZONE, NARROW),
    ],
    ids=["no room for the minimum", "too few pods", "too large for every domain"],
)
def test_a_gang_that_cannot_start_waits_with_the_reason(
    nodes: dict[str, Any], count: int, minimum: int, spec: dict[str, Any], why: str
):
    cache = world(nodes)
    submit(cache, count, minimum, spec=spec)
    assert binds(cache) == {}
    assert why in cause(cache)


def started(cache: Cache, name: str, size: int, *, at: str = "n", priority: int = 0, **given: Any) -> None:
    """A gang that runs on the nodes n0, n1, …, one pod on each. `at`: of other names."""
    spec = {"priority": priority, **given.pop("spec", {})}
    cache.natives.group_changed(None, gang(name, size, started=True, spec=spec, **given))
    for i in range(size):
        cache.pod_changed(None, pod(f"{name}-{i}", name, node=f"{at}{i}", priority=priority))


def high(cache: Cache, size: int, **spec: Any) -> None:
    """A gang of higher priority that waits."""
    cache.natives.group_changed(None, gang(minimum=size, spec={"priority": 100, **spec}))
    add(cache, size, priority=100)


PREEMPTIONS: dict[str, tuple[dict[str, Any], int, dict[str, Any], int]] = {
    "no more pods than it needs": ({}, 2, {}, 2),
    "nobody if it would not start": ({}, 5, {}, 0),
    "all of a group that goes whole": ({"spec": ALL}, 1, {}, 4),
    "nobody of a PodGroup annotated as not preemptable": ({"annotations": {"volcano.sh/preemptable": "false"}}, 1, {}, 0),
    "nobody where it never preempts": ({}, 1, {"preemptionPolicy": "Never"}, 0),
}


@pytest.mark.parametrize(("running", "size", "waiting", "want"), PREEMPTIONS.values(), ids=PREEMPTIONS)
def test_preemption_by_a_gang_respects_its_size_its_policy_and_the_disruption_mode_of_victims(
    running: dict[str, Any], size: int, waiting: dict[str, Any], want: int
):
    cache = world({f"n{i}": 1 for i in range(4)})
    started(cache, "low", 4, **running)
    high(cache, size, **waiting)
    assert len(evicted(cache)) == want


GROWTH: dict[str, tuple[int | None, int, dict[str, Any], set[str]]] = {
    "each pod of a basic group": (None, 0, {}, {"low-0", "low-1", "low-2"}),
    "a pod that joins a started basic group": (None, 2, {}, {"low-0"}),
    "a pod beyond the minimum of a waiting gang": (2, 0, {}, {"low-0", "low-1", "low-2"}),
    "a pod that joins a started gang": (2, 2, {}, {"low-0"}),
    "nobody where it never preempts": (2, 2, {"preemptionPolicy": "Never"}, set()),
}


@pytest.mark.parametrize(("minimum", "running", "spec", "want"), GROWTH.values(), ids=GROWTH)
def test_pods_beyond_the_minimum_preempt_too(minimum: int | None, running: int, spec: dict[str, Any], want: set[str]):
    cache = world({f"n{i}": 1 for i in range(3)} | {"full": running})
    started(cache, "low", 3)
    cache.natives.group_changed(None, gang(minimum=minimum, spec={"priority": 100, **spec}))
    add(cache, running, node="full", priority=100)
    for i in range(3 - running if running < 2 else 1):
        cache.pod_changed(None, pod(f"more-{i}", priority=100))
    assert evicted(cache) == want


def test_the_domain_whose_eviction_costs_least_is_chosen():
    cache = world({f"{zone}{i}": (1, {"zone": zone}) for zone in "abc" for i in range(2)})
    for zone, priority in (("a", 50), ("b", 10), ("c", 60)):
        started(cache, f"in-{zone}", 2, at=zone, priority=priority)
    high(cache, 2, **BY_ZONE)
    assert evicted(cache) == {"in-b-0", "in-b-1"}


@pytest.mark.parametrize(
    ("actions", "priority", "want"),
    [("enqueue, allocate", 100, True), ("enqueue, allocate, preempt", 100, False), ("enqueue, allocate", 0, False)],
)
def test_a_group_of_priority_says_that_eviction_is_switched_off(actions: str, priority: int, want: bool):
    cache = world({"n0": 1})
    started(cache, "other", 1, priority=200)
    cache.natives.group_changed(None, gang(minimum=1, spec={"priority": priority}))
    add(cache, 1, priority=priority)
    outcome, _ = decided(cache, settings(actions))
    text = "; eviction is switched off: the scheduler's configuration has no action preempt"
    assert (text in outcome.statuses[KEY].conditions[-1].message) is want


@pytest.mark.parametrize("nodes", [{"n0": 2, "n1": 1}, {"n0": 1, "n1": 1, "m0": 1}])
def test_a_lone_pod_is_evicted_before_a_whole_group_of_the_same_priority(nodes: dict[str, int]):
    cache = world(nodes)
    started(cache, "whole", 2, spec=ALL)
    started(cache, "lone", 1, at="m" if "m0" in nodes else "n")
    high(cache, 1)
    assert evicted(cache) == {"lone-0"}


@pytest.mark.parametrize("critical", [False, True])
def test_a_disruption_mode_all_podgroup_is_not_evicted_if_one_of_its_pods_is_critical(critical: bool):
    cache = world({f"n{i}": 1 for i in range(4)})
    cache.natives.group_changed(None, gang("low", 2, started=True, spec=ALL))
    cache.pod_changed(None, pod("low-0", "low", node="n0"))
    protected = {"priorityClassName": "system-node-critical"} if critical else {}
    cache.pod_changed(None, pod("low-1", "low", node="n1", spec=protected))
    started_here = {"annotations": {"volcano.sh/preemptable": "false"}}
    for i in (2, 3):
        cache.pod_changed(None, pod(f"x{i}", "", node=f"n{i}", **started_here))
    high(cache, 1)
    assert evicted(cache) == (set() if critical else {"low-0", "low-1"})


def test_preemption_evicts_in_the_only_topology_domain_that_can_hold_the_gang():
    cache = world({f"{zone}{i}": (1, {"zone": zone}) for zone in "ab" for i in range(2)})
    for zone, priority in (("a", 200), ("b", 10)):
        started(cache, f"in-{zone}", 2, at=zone, priority=priority)
    cache.natives.group_changed(None, gang("single", 1, started=True))
    cache.pod_changed(cache.tasks["uid-in-a-0"].pod, None)
    cache.pod_changed(None, pod("single-0", "single", node="a0"))
    high(cache, 2, **BY_ZONE)
    assert evicted(cache) == {"in-b-0", "in-b-1"}


def test_reclaim_evicts_a_disruption_mode_all_podgroup_as_a_whole():
    queues = [["q", {"deserved": {"cpu": 2}}], ["default", {"deserved": {"cpu": 0}, "reclaimable": True}]]
    cache = world({f"n{i}": 1 for i in range(3)}, *queues)
    started(cache, "low", 3, spec=ALL)
    submit(cache, 1, 1, labels={"scheduling.volcano.sh/queue-name": "q"})
    assert evicted(cache) == {"low-0", "low-1", "low-2"}


def test_no_pod_of_another_scheduler_is_evicted():
    cache = world({"n0": 1})
    cache.natives.group_changed(None, gang("low", 1))
    cache.pod_changed(None, pod("low-0", "low", node="n0", scheduler="default-scheduler"))
    high(cache, 1)
    assert evicted(cache) == set()
    assert cache.groups.current(native_key("t", "low")) is None


def test_a_namespace_assigns_a_gang_to_a_queue_whose_capability_limits_it():
    cache = world({"n": 9}, ["q", {"capability": {"cpu": 2}}])
    submit(cache, 3)
    cache.natives.namespace_changed(None, namespace("q"))
    assert binds(cache) == {}
    assert "queue q" in cause(cache)
    cache.natives.namespace_changed(namespace("q"), None)
    assert len(binds(cache)) == 3


def test_a_podgroup_of_a_missing_queue_is_excluded_with_that_reason():
    cache = world({"n": 9})
    submit(cache, 3, labels={"scheduling.volcano.sh/queue-name": "gone"})
    assert binds(cache) == {}
    assert cache.jobs.left_out() == {KEY: "queue gone does not exist"}


@pytest.mark.parametrize("name", ["g", "job"])
def test_explain_finds_a_podgroup_by_its_name_and_by_the_name_of_its_job(name: str):
    cache = world({"n": 9})
    submit(cache, 3, owner=("batch/v1", "Job", "job-uid"))
    jobs = cache.snapshot().all_jobs
    assert finder(lambda: jobs)(objects.NAMESPACE, name) == KEY


def test_a_replayed_capture_of_a_native_podgroup_gives_the_same_reasons():
    cache = world({"n": 9}, ["q"])
    cache.natives.namespace_changed(None, namespace("q"))
    submit(cache, 2)
    cache.pod_changed(None, pod("x", scheduler="default-scheduler"))
    outcome, _ = decided(cache, SETTINGS)
    cache.groups.believe(KEY, outcome.statuses[KEY])
    state = read(b'{"replay": ' + b"".join(encoded(taken(cache, SETTINGS, Ports(objects.NOW)))) + b"}")
    again = decided_again(state)
    shown = cache.groups.current(KEY)
    assert shown is not None
    assert again.reasons[KEY] == [f"{each.type} {each.reason}: {each.message}" for each in shown.status.conditions]
    assert again.binds == {}


def test_a_pod_naming_another_queue_than_the_oldest_pod_is_reported_as_queue_not_taken():
    cache = world({"n": 9}, ["a"], ["b"])
    key = "scheduling.volcano.sh/queue-name"
    cache.natives.group_changed(None, gang(minimum=2))
    cache.pod_changed(None, pod("old", age=9, labels={key: "a"}))
    cache.pod_changed(None, pod("young", age=1, labels={key: "b"}))
    assert len(binds(cache)) == 2
    (fault,) = cache.faults()
    assert (fault.event, fault.kind) == ("QueueNotTaken", NATIVE_POD_GROUPS)
    assert fault.reason == 'queue "b" is not taken: the oldest pod of the group, old, names queue "a"'
    cache.pod_changed(pod("young", age=1, labels={key: "b"}), None)
    assert binds(cache) == {}
    assert cache.faults() == frozenset()


def test_a_queue_counts_the_requests_of_bound_native_podgroup_pods():
    cache = world({"n": 9}, ["q"])
    cache.natives.group_changed(None, gang(labels={"scheduling.volcano.sh/queue-name": "q"}))
    add(cache, 3, node="n")
    assert cache.placed()["q"]["cpu"] == 3000


@pytest.mark.parametrize("uids", ["abc", "cba"])
def test_gangs_of_one_second_are_placed_in_the_order_of_arrival(uids: str):
    cache = world({f"r1-{i}": (2, {"zone": "1"}) for i in range(3)} | {"r2": (2, {"zone": "2"})})
    for at, (name, sizes) in enumerate([("one", (2, 1)), ("two", (1, 1, 1))]):
        cache.natives.group_changed(None, gang(name, len(sizes), spec=BY_ZONE, uid=uids[at], arrives=10 * at + 1))
        for i, cpu in enumerate(sizes):
            cache.pod_changed(None, pod(f"{name}{i}", name, cpu=cpu, arrives=10 * at + 2 + i))
    found = binds(cache)
    assert (len(found), {node[:2] for node in found.values()}) == (5, {"r1"})


@pytest.mark.parametrize("uids", ["ab", "ba"])
def test_pods_of_one_second_are_placed_in_the_order_of_arrival(uids: str):
    cache = world({f"n{i}": (2, {"kubernetes.io/hostname": f"n{i}"}) for i in (1, 2)})
    cache.natives.group_changed(None, gang(minimum=2, arrives=1))
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "foo"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    spec = {"nodeSelector": {"kubernetes.io/hostname": "n1"}, "affinity": apart}
    for at, (name, given) in enumerate([("anti", {"spec": spec}), ("plain", {})]):
        cache.pod_changed(None, pod(name, uid=uids[at], labels={"app": "foo"}, arrives=2 + at, **given))
    assert binds(cache) == {uids[0]: "n1", uids[1]: "n2"}


@pytest.mark.parametrize("uids", ["ab", "ba"])
def test_a_plain_pod_keeps_its_place_before_a_gang_although_its_podgroup_is_created_later(uids: str):
    cache = world({"n": 2})
    since = {"uid": uids[0], "creationTimestamp": objects.timestamp(objects.NOW - 9), "resourceVersion": "5"}
    cache.pod_changed(None, objects.edited(objects.pod(["x", "lone", "-", 1, 0]), metadata=since))
    cache.natives.group_changed(None, gang(minimum=2, age=9, arrives=6))
    for i in range(2):
        cache.pod_changed(None, pod(f"g{i}", age=9, arrives=7 + i))
    late = {"uid": uids[1], "creationTimestamp": objects.timestamp(objects.NOW - 8), "resourceVersion": "9"}
    group = objects.pod_group(["lone", "default", 1, {"phase": "Inqueue"}])
    cache.group_changed(None, objects.edited(group, metadata=late))
    assert list(binds(cache)) == [uids[0]]
