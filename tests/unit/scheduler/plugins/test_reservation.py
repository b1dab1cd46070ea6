"""Plugin reservation: who is reserved for, which nodes are locked and when they are given back, over cycles in virtual time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyroclast.api import keys
from pyroclast.api import waiting_reasons as pending
from pyroclast.lifecycle.gang.groups import volcano_group
from pyroclast_scheduler.model.reservations import Lock, Reservation, read, written
from pyroclast_scheduler.plugins.reservation.state import (
    ALL,
    Need,
    Nodes,
    ReservationSettings,
    covers,
    earliest,
    expected_end,
    next_state,
    promised,
)
from pyroclast_scheduler.session.configuration import BadConfiguration
from tests.counts import examples
from tests.scenarios import objects
from tests.scenarios.runner import feed
from tests.unit.scheduler import deciding
from tests.unit.scheduler.plugins.reserving import World, configured


def full(world: World) -> World:
    for i in range(4):
        world.job(f"small{i}", 1, node=f"n{i}")
    return world


def reserving(arguments: str = "{locksPerCycle: 2}", pods: int = 2, **options) -> World:
    """All nodes are full, and some of them are kept for a gang."""
    world = full(World(arguments=arguments))
    world.job("big", pods, **options)
    world.step()
    return world


def test_one_node_per_schedule_period_is_locked_until_the_waiting_job_fits():
    world = reserving("{}")
    assert len(world.locked) == 1
    world.step()
    assert len(world.locked) == 2
    world.step()
    assert len(world.locked) == 2, "two nodes are enough"
    assert ("t/big", "ReservationTarget") in world.notes


def test_small_jobs_are_not_placed_on_locked_nodes_and_get_the_reason():
    world = reserving()
    world.end(f"small{min(world.locked)[1]}")
    world.job("late", 1)
    world.step()
    assert "late-0" not in world.binds
    assert "waiting for nodes reserved for job t/big" in world.waiting["late-0"]
    said = "KeptForAnother: not now: its gang needs 1 pod of 4 cpu and would fit, but 2 nodes are kept for t/big"
    assert pending.parted(world.conditions["t/late"])[1] == said


def test_messages_do_not_name_a_reservation_target_of_another_namespace():
    world = reserving()
    world.end(f"small{min(world.locked)[1]}")
    world.job("late", 1, ns="other", pod_options={"ns": "other"})
    world.step()
    said = world.conditions["other/late"]
    assert "nodes are kept for a gang of another namespace" in said
    assert "big" not in said + world.waiting["late-0"]


def test_a_reservation_is_released_when_its_target_is_placed():
    world = reserving()
    for node in sorted(world.locked):
        world.end(f"small{node[1]}")
    world.step()
    assert {"big-0", "big-1"} <= world.binds.keys()
    assert not world.reservations
    assert ("t/big", "ReservationReleased") in world.notes


@pytest.mark.parametrize(("order", "node"), [("capacity", "large"), ("idle", "n0")])
def test_node_order_locks_the_node_with_most_capacity_or_most_idle_resources_first(order, node):
    world = World(nodes=1, arguments=f"{{nodeOrder: {order}}}")
    feed(world.cache, {"nodes": [["large", 8, "8Gi"]]})
    world.job("on-large", 1, cpu=7, node="large")
    world.job("on-small", 1, cpu=1, node="n0")
    world.job("big", 2, cpu=4)
    world.step()
    assert world.locked == {node}


def test_no_reservation_is_made_for_a_job_that_can_never_fit():
    assert not reserving("{}", 5).reservations


def test_the_reservation_target_is_the_annotated_job_or_else_the_one_with_highest_priority():
    world = full(World())
    world.job("plain", 2, created=-100)
    world.job("important", 2, **{"class": 10})
    world.step()
    assert set(world.reservations) == {"t/important"}
    world.job("named", 2, annotations={keys.RESERVATION_TARGET: "true"})
    world.step()
    assert set(world.reservations) == {"t/named"}
    assert ("t/important", "ReservationReleased") in world.notes


def test_target_scope_queue_gives_every_queue_a_separate_reservation_target():
    world = full(World(arguments="{targetScope: queue}"))
    world.job("one", 2)
    world.job("two", 2, queue="r")
    world.step()
    world.step()
    assert set(world.reservations) == {"t/one", "t/two"}
    assert not world.reservations["t/one"].nodes & world.reservations["t/two"].nodes


def test_nodes_are_locked_for_a_job_only_after_min_wait():
    world = reserving("{minWait: 2h}")
    assert not world.reservations
    world.step(seconds=7200)
    assert set(world.reservations) == {"t/big"}


@pytest.mark.parametrize(
    ("arguments", "targets", "most"),
    [
        ("maxLockedShare: 0.5", {"one": (3, "q")}, 2),
        ("maxLockedShare: 0.75, targetScope: queue", {"one": (2, "q"), "two": (2, "r")}, 3),
    ],
    ids=["one target", "all targets together"],
)
def test_targets_lock_at_most_max_locked_share_of_the_nodes(arguments, targets, most):
    world = full(World(arguments=f"{{locksPerCycle: all, {arguments}}}"))
    for name, (pods, queue) in targets.items():
        world.job(name, pods, queue=queue)
    world.step()
    assert set(world.reservations) == {f"t/{name}" for name in targets}
    assert len(world.locked) == most


def test_a_preemptive_reservation_evicts_lower_priority_pods_at_once():
    world = reserving("{locksPerCycle: 2, preemptive: true}", 2, **{"class": 10})
    assert len(world.evicted) == 2
    world.step()
    assert {"big-0", "big-1"} <= world.binds.keys()


@pytest.mark.parametrize(("may_go", "want"), [(True, ["gang-0", "gang-1", "other-0"]), (False, ["other-0"])])
def test_a_preemptive_reservation_evicts_a_gang_entirely_or_not_at_all(may_go, want):
    world = World(arguments="{locksPerCycle: 2, preemptive: true}")
    pods = [["gang-0", "gang", "n0", 4, 0], ["gang-1", "gang", "n2", 4, 0, {"pre": may_go}]]
    feed(world.cache, {"podgroups": [["gang", "r", 2, {"phase": "Running"}]], "pods": pods})
    world.job("other", 1, node="n1")
    world.job("big", 2, **{"class": 10})
    world.step()
    assert sorted(world.evicted) == want


def test_only_a_job_that_ends_before_the_promised_start_is_placed_on_a_locked_node():
    world = World(arguments="{locksPerCycle: 4}")
    for i in range(3):
        world.job(f"long{i}", 1, node=f"n{i}", annotations={keys.RUNNING_ESTIMATE: "1h"})
    world.job("big", 4)
    world.step()
    (state,) = world.reservations.values()
    assert state.promise == pytest.approx(world.now + 3600, abs=2)
    world.job("short", 1, annotations={keys.RUNNING_ESTIMATE: "10m"})
    world.job("endless", 1, annotations={keys.RUNNING_ESTIMATE: "2h"})
    world.step()
    assert world.binds == {"short-0": "n3"}


def test_a_reservation_is_read_from_a_valid_annotation_only_by_its_own_scheduler():
    state = Reservation(job="t/j", uid="j", scheduler="volcano", since=5.0, locks=(Lock("n1", 6.0),), promise=9.0)
    group = volcano_group(objects.pod_group(["j", "q", 1, {"annotations": {keys.RESERVATION: written(state)}}]))
    assert read([group], "volcano") == {"t/j": state}
    assert read([group], "other") == {}
    broken = volcano_group(objects.pod_group(["j", "q", 1, {"annotations": {keys.RESERVATION: "{"}}]))
    assert read([broken], "volcano") == {}


def test_locked_nodes_stay_locked_after_a_restart():
    world = reserving("{}")
    (state,) = world.reservations.values()
    world.job("big", 2, annotations={keys.RESERVATION: written(state)})
    world.reservations = None
    before = world.locked
    world.step()
    assert before <= world.locked
    assert world.reservations["t/big"].since == state.since
    assert world.notes.count(("t/big", "ReservationTarget")) == 1, "the scheduler before has chosen it"


@pytest.mark.parametrize("is_new", [False, True], ids=["while it runs", "with a restart"])
def test_reservations_are_released_when_the_plugin_is_no_longer_configured(is_new):
    world = reserving("{}")
    (state,) = world.reservations.values()
    world.job("big", 2, annotations={keys.RESERVATION: written(state)})
    world.settings = deciding.configured('actions: "enqueue, allocate"')
    world.reservations = None if is_new else world.reservations
    world.step()
    assert world.reservations == {}
    assert world.released == {"t/big"}
    assert ("t/big", "ReservationReleased") in world.notes


@pytest.mark.parametrize(
    ("actions", "with_plugin"),
    [
        ("elect, enqueue, allocate, reserve", True),
        ("enqueue, allocate, elect, reserve", True),
        ("enqueue, elect, reserve, allocate", True),
        ("elect, allocate, reserve", True),
        ("enqueue, elect, allocate, elect, reserve", True),
        ("enqueue, elect, backfill, reserve", True),
        ("enqueue, elect, allocate", True),
        ("enqueue, elect, allocate, reserve", False),
        ("enqueue, allocate", True),
    ],
)
def test_an_incomplete_or_misordered_reservation_configuration_is_refused(actions, with_plugin):
    text = f'actions: "{actions}"\ntiers: [{{plugins: [{{name: gang}}{", {name: reservation}" if with_plugin else ""}]}}]'
    with pytest.raises(BadConfiguration, match="elect"):
        deciding.configured(text)


def test_the_recommended_reservation_configuration_is_accepted():
    assert configured().actions == ("enqueue", "elect", "allocate", "backfill", "reserve")


def nodes_of(sizes, passing):
    whole = np.zeros((3, len(sizes)))
    whole[0] = sizes
    names = [f"n{i}" for i in range(len(sizes))]
    rows = {name: row for row, name in enumerate(names)}
    return Nodes(names, rows, np.array(passing, dtype=np.bool_), whole, whole.copy(), np.zeros(len(sizes), dtype=np.bool_))


@settings(max_examples=examples(200))
@given(
    st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=8),
    st.integers(1, 40),
    st.sampled_from([1, 2, ALL]),
    st.integers(1, 12),
)
def test_locked_nodes_are_feasible_and_needed_and_cover_the_request_in_time(sizes, want, per_period, periods):
    nodes = nodes_of([size for size, _ in sizes], [ok for _, ok in sizes])
    need = Need(np.array([float(want), 0.0, 0.0]))
    chosen = ReservationSettings(locks_per_period=per_period)
    state = Reservation(job="j", uid="j", scheduler="volcano")
    for period in range(periods):
        before = state
        state = next_state(state, nodes, need, chosen, period=period, now=float(period))
        rows = [nodes.rows[lock.node] for lock in state.locks]
        assert all(nodes.passing[row] for row in rows)
        if per_period != ALL:
            assert len(state.locks) <= len(before.locks) + per_period
            for row in rows:
                rest = [each for each in rows if each != row]
                assert not covers(nodes, rest, need) or not covers(nodes, rows, need)
    if covers(nodes, np.flatnonzero(nodes.passing), need) and periods * max(per_period, 1) >= len(sizes):
        assert covers(nodes, [nodes.rows[lock.node] for lock in state.locks], need)


@pytest.mark.parametrize(("pace", "want"), [(1, 2), (3, 6), (ALL, 8)])
def test_nodes_are_locked_by_schedule_periods_however_often_sessions_run(pace, want):
    nodes = nodes_of([4] * 8, [True] * 8)
    state = Reservation(job="j", uid="j", scheduler="volcano")
    for period in (0, 0, 0, 1, 1):
        need = Need(np.array([32.0, 0.0, 0.0]))
        state = next_state(state, nodes, need, ReservationSettings(locks_per_period=pace), period=period, now=float(period))
    assert len(state.locks) == want


@given(st.lists(st.one_of(st.none(), st.integers(0, 100)), max_size=6), st.integers(0, 6))
def test_the_promised_start_is_when_enough_nodes_are_free(ends, count):
    found = earliest(enumerate(ends), lambda free: len(free) >= count)
    known = sorted(end for end in ends if end is not None)
    if 0 < count <= len(known):
        assert found == known[count - 1]
    elif count > 0:
        assert found is None


@pytest.mark.parametrize(
    ("before", "found", "blame", "after"),
    [
        (None, 50.0, "", 50.0),
        (50.0, 40.0, "", 40.0),
        (50.0, 60.0, "", 50.0),
        (50.0, 60.0, "job x outlives its estimate", 60.0),
        (50.0, None, "node n is no longer kept", None),
        (50.0, None, "", 50.0),
    ],
)
def test_a_promised_start_is_postponed_only_with_a_known_cause(before, found, blame, after):
    state = Reservation(job="j", uid="j", scheduler="volcano", promise=before)
    following = promised(state, found, blame, 10.0)
    assert following.promise == after
    assert following.late == (blame if after != before and before is not None and (found is None or found > before) else "")


def test_locked_nodes_must_fit_whole_pods_and_not_only_the_summed_request():
    world = World(nodes=4, arguments="{locksPerCycle: 4}")
    for i in range(4):
        world.job(f"small{i}", 1, node=f"n{i}")
    world.job("big", 4, cpu=3)  # 12 cpu are three nodes in sum, but every node takes one pod only
    world.step()
    assert len(world.locked) == 4


def test_a_node_with_a_running_pod_of_the_target_is_not_locked():
    world = World(nodes=3, arguments="{locksPerCycle: 3, nodeOrder: capacity}")
    for i in (1, 2):
        world.job(f"small{i}", 1, node=f"n{i}")
    world.job("big", 2, node=["n0", "-"], phase="Inqueue")
    world.step()
    assert world.locked == {"n1"}


def test_more_nodes_are_locked_when_anti_affinity_keeps_target_pods_apart():
    world = World(nodes=3)
    world.job("small", 1, node="n2")
    anti = {"labels": {"app": "big"}, "anti": {"key": "kubernetes.io/hostname", "app": "big"}}
    for i in range(3):
        feed(world.cache, {"nodes": [[f"n{i}", 4, "8Gi", {"labels": {"kubernetes.io/hostname": f"n{i}"}}]]})
    world.job("big", 3, cpu=1, pod_options=anti)
    for _ in range(4):
        world.step()
    assert world.locked == {"n0", "n1", "n2"}, "3 cpu fit on one node, but its pods keep apart"
    world.end("small")
    world.step()
    assert {"big-0", "big-1", "big-2"} <= world.binds.keys()


@pytest.mark.parametrize(
    ("seconds", "now", "end"),
    [(100.0, 50.0, (100.0, False)), (100.0, 100.5, (100.0, False)), (100.0, 150.0, (200.0, True)), (100.0, 450.0, (800.0, True))],
)
def test_the_expected_run_time_is_doubled_when_a_job_exceeds_it(seconds, now, end):
    assert expected_end(0.0, seconds, now) == end


def test_a_postponed_promise_admits_no_more_jobs_to_locked_nodes():
    world = World(arguments="{locksPerCycle: 4}")
    for i in range(3):
        world.job(f"long{i}", 1, node=f"n{i}", annotations={keys.RUNNING_ESTIMATE: "1h"}, start=0)
    world.job("big", 4)
    world.step()
    world.step(seconds=3700)
    (state,) = world.reservations.values()
    assert state.late.startswith("job t/long")
    assert state.promise > world.now > state.fill_until
    world.job("short", 1, annotations={keys.RUNNING_ESTIMATE: "1m"})
    world.step()
    assert not world.binds
    assert "was put off: job t/long" in str(state)


@pytest.mark.parametrize("periods", [0, 1], ids=["before another node is locked", "as another node is locked"])
def test_a_promise_lost_with_a_deleted_node_reports_the_node_as_the_cause(periods):
    world = World(nodes=3)
    for i, hours in enumerate((1, 1, 2)):
        world.job(f"long{i}", 1, node=f"n{i}", annotations={keys.RUNNING_ESTIMATE: f"{hours}h"}, start=0)
    world.job("big", 2)
    began = world.now
    world.step()
    world.step()
    (state,) = world.reservations.values()
    assert (state.nodes, state.promise, state.late) == ({"n0", "n1"}, began + 3600, "")
    world.end("long0")
    world.cache.node_changed(objects.node(["n0", 4, "8Gi"]), None)
    world.step(periods=periods)
    (state,) = world.reservations.values()
    assert (state.promise, state.late) == (began + 7200 if periods else None, "node n0 is no longer kept")
    world.step()
    (state,) = world.reservations.values()
    assert (state.nodes, state.promise, state.late) == ({"n1", "n2"}, began + 7200, "node n0 is no longer kept")


def test_the_promised_start_is_reported_in_a_condition_and_an_event():
    world = World(arguments="{locksPerCycle: 4}")
    for i in range(4):
        world.job(f"long{i}", 1, node=f"n{i}", annotations={keys.RUNNING_ESTIMATE: "1h"})
    world.job("big", 2)
    world.step()
    world.step()
    assert ("t/big", "ReservationPromised") in world.notes
    assert "2 nodes are kept for it; enough of them will be free at 2027-" in world.conditions["t/big"]
