"""The pure parts of numa-aware: sets of CPUs, hints, which CPUs a container gets, what is read of a node."""

from __future__ import annotations

from itertools import chain, combinations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyroclast.api import records
from pyroclast_scheduler.plugins.numa_aware import topology
from pyroclast_scheduler.plugins.numa_aware.book import Wanted, wanted
from pyroclast_scheduler.plugins.numa_aware.layouts import Profile, layout_of, policy_refusal, read
from pyroclast_scheduler.plugins.numa_aware.policies import assigned, best, examined
from pyroclast_scheduler.plugins.numa_aware.topology import Layout, take, take_near
from tests.scenarios import numa, objects

POLICIES = ("best-effort", "restricted", "single-numa-node")


def machine(sockets: int, numa_per_socket: int, cores: int, threads: int) -> Layout:
    """CPUs numbered as Linux does: the first thread of each core, then the second."""
    whole = sockets * numa_per_socket * cores
    places = [(at // (numa_per_socket * cores), at // cores, at % cores) for at in range(whole)] * threads
    detail = {str(cpu): records.CpuInfo(socket=s, numa=n, core=c) for cpu, (s, n, c) in enumerate(places)}
    return layout_of(detail)


MACHINES = st.builds(machine, st.integers(1, 2), st.integers(1, 3), st.integers(1, 4), st.integers(1, 2))
POLICY = st.sampled_from(POLICIES)
COUNTS = st.lists(st.integers(0, 9), min_size=1, max_size=4).map(tuple)


@st.composite
def partly_free(draw):
    layout = draw(MACHINES)
    return layout, draw(st.integers(0, layout.cpus)) & layout.cpus


@pytest.mark.parametrize(
    ("text", "want"),
    [("", []), ("0", [0]), ("0,2-4", [0, 2, 3, 4]), (" 1 , 3-3 ", [1, 3]), ("4-6,5-7", [4, 5, 6, 7]), ("8191", [8191])],
)
def test_a_cpu_list_with_numbers_and_ranges_is_parsed(text, want):
    assert list(topology.members(topology.cpus_of(text))) == want


@pytest.mark.parametrize("text", ["a", "1-", "-1", "3-1", "1,,2", "0x1", "8192", "0-99999999999", "1;2", "٣"])
def test_an_invalid_cpu_list_raises_value_error(text):
    with pytest.raises(ValueError, match=r"CPU|range|ends before"):
        topology.cpus_of(text)


def enumerated(room, totals, count):
    """The merged hint by the rule: all sets of NUMA nodes, preferred before not, then narrower, then lower numbers."""
    nodes = range(len(totals))
    masks = list(chain.from_iterable(combinations(nodes, size) for size in range(1, len(totals) + 1)))
    fewest = min((len(mask) for mask in masks if sum(totals[at] for at in mask) >= count), default=len(totals))
    hints = [
        (len(mask) != fewest, len(mask), sum(1 << at for at in mask)) for mask in masks if sum(room[at] for at in mask) >= count
    ]
    if not hints:
        return ((1 << len(totals)) - 1, False)
    is_worse, _, bits = min(hints)
    return (bits, not is_worse)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=6), st.integers(1, 20))
def test_the_best_numa_hint_matches_an_exhaustive_search(nodes, count):
    room = tuple(free for free, _ in nodes)
    totals = tuple(free + taken for free, taken in nodes)
    assert best(room, totals, count) == enumerated(room, totals, count)


def test_the_best_hint_is_found_among_500_numa_nodes():
    assert best((4,) * 500, (4,) * 500, 1000).nodes.bit_count() == 250


@given(partly_free(), st.integers(0, 30))
def test_take_returns_the_requested_number_of_free_cpus_or_none(given_machine, count):
    layout, free = given_machine
    taken = take(layout, free, count)
    if count > free.bit_count():
        assert taken is None
    else:
        assert taken is not None
        assert taken & ~free == 0
        assert taken.bit_count() == count


@given(partly_free(), st.integers(0, 30))
def test_whole_cores_are_taken_where_possible(given_machine, count):
    layout, free = given_machine
    taken = take(layout, free, count) or 0
    whole = [core for core in layout.cores if not core & ~free]
    size = max(core.bit_count() for core in layout.cores)
    touched = [core for core in whole if core & taken == core]
    assert len(touched) >= min(len(whole), taken.bit_count() // size)


@given(partly_free(), st.integers(1, 20))
def test_cpus_are_taken_only_from_the_numa_nodes_of_the_best_hint(given_machine, count):
    layout, free = given_machine
    nodes = best(layout.room(free), layout.totals, count).nodes
    taken = take_near(layout, free, nodes, count)
    assert (taken is None) == (count > free.bit_count())
    assert (taken or 0) & ~layout.within(nodes) == 0


TWO_SOCKETS = machine(2, 1, 4, 2)  # socket 0: cores 0-3 with threads 8-11 beside them; socket 1: 4-7 and 12-15


@pytest.mark.parametrize(
    ("free", "count", "want"),
    [
        ("0-15", 8, "0-3,8-11"),
        ("0-15", 2, "0,8"),
        ("0-15", 3, "0,8,1"),
        ("0-15", 10, "0-3,8-11,4,12"),
        ("1-15", 8, "4-7,12-15"),
        ("0-3,8-9,12-15,4", 2, "4,12"),  # sockets with fewer whole cores first
        ("0-2,4,12", 3, "4,12,0"),
        ("0-3", 1, "0"),
    ],
)
def test_cpus_are_taken_in_the_kubelets_order(free, count, want):
    assert take(TWO_SOCKETS, topology.cpus_of(free), count) == topology.cpus_of(want)


@given(partly_free(), COUNTS, POLICY)
def test_no_cpu_is_assigned_to_two_containers(given_machine, counts, policy):
    layout, free = given_machine
    found = assigned(policy, layout, free, counts)
    if found is None:
        return
    together = 0
    for cpus, count in zip(found, counts, strict=True):
        assert cpus & together == 0
        assert cpus & ~free == 0
        assert cpus.bit_count() == count or (policy == "best-effort" and cpus == 0)
        together |= cpus


@given(partly_free(), COUNTS, POLICY)
def test_examining_a_layout_predicts_the_failure_and_spread_of_the_assignment(given_machine, counts, policy):
    layout, free = given_machine
    found, seen = assigned(policy, layout, free, counts), examined(policy, layout, free, counts)
    assert (found is None) == (seen.failed is not None)
    if found is not None and all(cpus.bit_count() == count for cpus, count in zip(found, counts, strict=True)):
        assert seen.spread == layout.touched(sum(found)).bit_count()


@given(partly_free(), st.integers(1, 20))
def test_policy_single_numa_node_assigns_cpus_of_one_numa_node_or_fails(given_machine, count):
    layout, free = given_machine
    found = assigned("single-numa-node", layout, free, (count,))
    assert (found is None) == (max(layout.room(free)) < count)
    assert found is None or layout.touched(found[0]).bit_count() == 1


PROFILES = {
    "nothing is known": (Profile(), "numa info is empty"),
    "it makes no sense": (Profile(is_sound=False), "numa info is malformed"),
    "no static manager": (Profile(is_there=True, policy="restricted"), "cpu manager policy isn't static"),
    "another policy": (
        Profile(is_there=True, is_static=True, policy="none", has_cpus=True),
        "task topology policy[restricted] is different with node[none]",
    ),
    "no cpus": (Profile(is_there=True, is_static=True, policy="restricted"), "no topo information"),
    "as asked for": (Profile(is_there=True, is_static=True, policy="restricted", has_cpus=True), None),
}


@pytest.mark.parametrize(("profile", "want"), PROFILES.values(), ids=PROFILES.keys())
def test_a_node_with_an_unsuitable_numa_profile_is_refused_with_the_reason(profile, want):
    assert policy_refusal(profile, "restricted") == want


MALFORMED = {
    "a free set": ({"numares": {"cpu": {"allocatable": "0-"}}}, r"spec.numares\[cpu\].allocatable: '0-'"),
    "a CPU": ({"cpuDetail": {"one": {}}}, "spec.cpuDetail: 'one'"),
    "a CPU beyond all": ({"cpuDetail": {"999999": {}}}, "spec.cpuDetail: '999999'"),
    "a reserved amount": ({"resReserved": {"cpu": "some"}}, r"spec.resReserved\[cpu\]: 'some'"),
}


@pytest.mark.parametrize(("spec", "why"), MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_numatopology_raises_an_error_with_the_field_path(spec, why):
    with pytest.raises(ValueError, match=why):
        read(msgspec.convert({"metadata": {"name": "n"}, "spec": spec}, records.Numatopology), {})


def test_a_reserved_cpu_amount_is_rounded_up_and_taken_in_the_order_of_assignment():
    record = numa.numatopology("n", {0: 4, 1: 4}, reserved="1500m", threads=2)
    assert read(record, {}).reserved == topology.cpus_of("0-1")


def test_a_reserved_amount_above_the_cpu_count_reserves_all_cpus():
    inside = read(numa.numatopology("n", {0: 4}, reserved="100"), {})
    assert inside.reserved == inside.layout.cpus


def test_nodes_with_equal_cpu_details_share_one_layout():
    layouts: dict[bytes, Layout] = {}
    first, second = (read(numa.numatopology(name), layouts).layout for name in ("a", "b"))
    assert first is second


def test_equal_core_numbers_on_two_sockets_are_two_cores():
    detail = {str(cpu): records.CpuInfo(socket=cpu, numa=cpu, core=0) for cpu in range(2)}
    assert len(layout_of(detail).cores) == 2


@pytest.mark.parametrize(
    ("qos", "cpu", "policy", "want"),
    [
        ("Guaranteed", "4", "restricted", Wanted("restricted", (4,), ("c",))),
        ("Guaranteed", "2000m", "none", Wanted("", (2,), ("c",))),
        ("Guaranteed", "1500m", "", Wanted("", (0,), ("c",))),
        ("Burstable", "4", "restricted", None),
        ("BestEffort", "4", "restricted", None),
    ],
)
def test_only_guaranteed_pods_request_exclusive_cpus_and_only_whole_ones(qos, cpu, policy, want):
    assert wanted(numa.pod(["p", "j", "-", cpu, "1Gi"], qos=qos, policy=policy)) == want


def test_the_qos_class_in_the_pod_status_is_used():
    body = msgspec.to_builtins(objects.pod(["p", "j", "-", 1, "1Gi"]))
    body["status"]["qosClass"] = "Guaranteed"
    assert wanted(msgspec.convert(body, records.Pod)) == Wanted("", (1,), ("c",))
