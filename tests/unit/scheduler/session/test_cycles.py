"""Properties of whole cycles on random clusters."""

import time
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from pyroclast_scheduler.cache.cache import Cache
from tests.counts import examples
from tests.scenarios import objects
from tests.scenarios.taking import assume_all, take_statuses
from tests.unit.scheduler.deciding import configured, decided

PLAIN = """
actions: allocate
tiers:
- plugins: [{name: priority}, {name: gang}, {name: predicates}]
"""
FULL = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: overcommit}, {name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}, {name: binpack}]
"""


@st.composite
def clusters(draw):
    """Nodes (cpu, pods), jobs (minimum, priority, phase), pods of each job (cpu)."""
    nodes = draw(st.lists(st.tuples(st.integers(1, 8), st.integers(1, 6)), min_size=1, max_size=6))
    jobs = []
    for _ in range(draw(st.integers(1, 6))):
        pods = draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
        if draw(st.booleans()):
            pods = [pods[0]] * len(pods)
        jobs.append((draw(st.integers(0, len(pods))), draw(st.integers(0, 2)), pods))
    return nodes, jobs


def fill(nodes, jobs, *, phase="Inqueue"):
    cache = Cache()
    cache.queue_changed(None, objects.queue(["q"]))
    for i, (cpu, pods) in enumerate(nodes):
        cache.node_changed(None, objects.node([f"n{i}", cpu, "64Gi", {"pods": pods}]))
    for j, (minimum, priority, pods) in enumerate(jobs):
        cache.priority_changed(None, objects.priority_class(priority))
        cache.group_changed(None, objects.pod_group([f"j{j}", "q", minimum, {"class": priority, "phase": phase}]))
        for i, cpu in enumerate(pods):
            cache.pod_changed(None, objects.pod([f"j{j}-p-{i}", f"j{j}", "-", cpu, "1Gi"]))
    return cache


def cycle(cache, text):
    outcome, binds = decided(cache, configured(text))
    return outcome, {cache.tasks[uid].name: node for uid, node in binds.items()}


@settings(max_examples=examples(60))
@given(clusters())
def test_no_node_is_over_committed_and_no_gang_is_bound_below_its_minimum(cluster):
    nodes, jobs = cluster
    cache = fill(nodes, jobs, phase="Pending")
    for _ in range(2):
        _, binds = cycle(cache, FULL)
        for name, node in binds.items():
            assert cache.pods.assume(f"t-{name}", node) is None, name
    running = [task for task in cache.tasks.values() if task.node]
    members = Counter(task.job for task in running)
    for i, (cpu, pods) in enumerate(nodes):
        requests = [task.shape.request["cpu"] for task in running if task.node == f"n{i}"]
        assert sum(requests) <= cpu * 1000
        assert len(requests) <= pods
    for j, (minimum, _, _) in enumerate(jobs):
        assert members[f"t/j{j}"] == 0 or members[f"t/j{j}"] >= minimum


@settings(max_examples=examples(20))
@given(clusters())
def test_two_cycles_over_equal_clusters_bind_the_same(cluster):
    assert cycle(fill(*cluster), FULL)[1] == cycle(fill(*cluster), FULL)[1]


def test_a_gang_that_does_not_fit_binds_nothing_and_has_a_condition_with_the_reason():
    cache = fill([(4, 10)], [(3, 0, [2, 2, 2])])
    outcome, binds = cycle(cache, PLAIN)
    assert binds == {}
    (condition,) = outcome.statuses["t/j0"].conditions
    assert (condition.type, condition.reason) == ("Unschedulable", "NotEnoughResources")
    assert condition.message == (
        "1/3 tasks in gang unschedulable: pod group is not ready, 3 Pending, 3 minAvailable; Pending: 1 Unschedulable, "
        "2 Schedulable. Origin reason is j0-p-2: 0/1 nodes are unavailable: 1 Insufficient cpu. "
        "TooFewNodes: never: its gang needs 3 pods of 2 cpu, 1Gi memory, and 1 node holds 2 of them even when empty"
    )
    assert cycle(cache, PLAIN)[1] == {}


def test_a_partly_bound_gang_that_cannot_be_completed_is_reported_incomplete():
    cache = fill([(2, 10)], [(2, 0, [2, 2])])
    assert cache.pods.assume("t-j0-p-0", "n0") is None
    outcome, _ = cycle(cache, PLAIN)
    assert outcome.incomplete == ["t/j0"]


def test_a_gang_with_binds_in_flight_gets_no_unschedulable_warning():
    cache = fill([(4, 10)], [(2, 0, [2, 2])])
    assert assume_all(cache, [("t-j0-p-0", "n0"), ("t-j0-p-1", "n0")]) is None
    outcome, _ = cycle(cache, PLAIN)
    assert [(note.kind, note.reason) for note in outcome.notes if note.kind == "Warning"] == []


def test_an_unchanged_podgroup_status_is_not_written_again():
    cache = fill([(4, 10)], [(2, 0, [2, 2])])
    first, _ = cycle(cache, PLAIN)
    take_statuses(cache, first)
    second, _ = cycle(cache, PLAIN)
    assert second.statuses == {}


def test_a_gang_of_1000_pods_is_placed_within_two_seconds_of_cpu_time():
    """A guard against a slow path, not a measurement: a hundred times the aim."""
    size = 1000
    cache = fill([(32, 110)] * 200, [(size, 0, [1] * size)])
    start = time.process_time()
    _, binds = cycle(cache, FULL)
    assert len(binds) == size
    assert time.process_time() - start < 2.0
