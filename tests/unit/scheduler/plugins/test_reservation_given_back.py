"""Locked nodes are closed to other jobs, and a reservation ends when its job cannot start any more."""

from __future__ import annotations

import msgspec
import pytest

from pyroclast.api import keys
from pyroclast_scheduler.plugins.reservation.plugin import PATIENCE
from tests.scenarios import objects
from tests.scenarios.runner import feed
from tests.unit.scheduler.deciding import configured
from tests.unit.scheduler.plugins.reserving import World

ALL = "enqueue, elect, allocate, backfill, reserve, preempt, reclaim, gangpreempt, gangreclaim"
PLUGINS = "{name: priority}, {name: gang}, {name: conformance}, {name: predicates}, {name: nodeorder}"
DESERVED = {"deserved": {"cpu": 4, "memory": "8Gi"}}
NAMED = {keys.RESERVATION_TARGET: "true"}
TARGET = {"annotations": NAMED, "class": 10}


def world_of(nodes: int, *, actions: str = ALL, plugins: str = PLUGINS, keeps: bool) -> World:
    """A world in which reservation is on, or everything else alone."""
    world = World(nodes)
    if keeps:
        plugins += ", {name: reservation, arguments: {locksPerCycle: 4}}"
    else:
        actions = actions.replace("elect, ", "").replace("reserve, ", "").replace(", reserve", "")
    text = f'actions: "{actions}"\ntiers: [{{plugins: [{plugins}]}}]'
    world.settings = configured(text)
    return world


@pytest.mark.parametrize("keeps", [False, True])
def test_backfill_places_no_pods_on_nodes_locked_by_a_reservation(keeps):
    """Pods that ask for nothing take no room, and yet they are kept off."""
    world = world_of(2, actions="enqueue, elect, allocate, backfill, reserve", keeps=keeps)
    world.job("small", 1, node="n1")
    world.job("big", 2, **TARGET)
    world.step()
    assert world.locked == ({"n0", "n1"} if keeps else set())
    world.job("nothing", 1, cpu=0)
    world.step()
    assert ("nothing-0" in world.binds) is not keeps


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize(
    ("action", "queue"), [("preempt", "q"), ("gangpreempt", "q"), ("reclaim", "r"), ("gangreclaim", "r")], ids=lambda each: each
)
def test_no_pod_on_a_locked_node_is_evicted_for_a_job_other_than_the_target(action, queue, keeps):
    """The only pods that could go are on a node that is kept for a target, which itself takes nothing from them."""
    world = world_of(
        2, actions=f"enqueue, elect, allocate, reserve, {action}", plugins=PLUGINS + ", {name: capacity}", keeps=keeps
    )
    low = [[f"low-{i}", "low", "n0", 2, 0] for i in range(2)]
    queues = [["q", DESERVED], ["r", DESERVED]]
    feed(world.cache, {"queues": queues, "podgroups": [["low", "q", 1, {"phase": "Running"}]], "pods": low})
    world.job("high", 1, node="n1", pod_options={"pre": False}, **{"class": 20})
    world.job("big", 2, pod_options={"never": True}, **TARGET)
    world.step()
    world.evicted.clear()
    world.job("mid", 1, cpu=2, queue=queue, **{"class": 5})
    for _ in range(3):
        world.step()
    assert len(world.evicted) == (0 if keeps else 1)


@pytest.mark.parametrize("keeps", [False, True])
def test_enqueue_does_not_count_idle_resources_of_locked_nodes(keeps):
    """What is idle on the nodes of a target is not there for those who want to be let in."""
    plugins = PLUGINS + ", {name: overcommit, arguments: {overcommit-factor: 2.0}}"
    world = world_of(4, actions="enqueue, elect, allocate, reserve", plugins=plugins, keeps=keeps)
    for i in (2, 3):
        world.job(f"small{i}", 1, node=f"n{i}")
    world.job("big", 3, minRes={"cpu": 12}, **TARGET)
    world.step()
    world.job("late", 2, phase="Pending", minRes={"cpu": 8})
    world.step()
    assert (world.phases.get("t/late") == "Inqueue") is not keeps


ALL_AT_ONCE = "{locksPerCycle: all}"


def full() -> World:
    world = World(arguments=ALL_AT_ONCE)
    for i in range(4):
        world.job(f"small{i}", 1, node=f"n{i}", minRes={"cpu": 4})
    return world


def queue(name: str, state: str = "Open", **options):
    found = objects.queue([name, options])
    return msgspec.structs.replace(found, status=msgspec.structs.replace(found.status, state=state))


def pods_never_come() -> World:
    world = full()
    feed(world.cache, {"podgroups": [["target", "q", 4, {"phase": "Pending", "minRes": {"cpu": 16}}]]})
    world.step()
    return world


def pods_are_gated() -> World:
    world = full()
    world.job("target", 4, phase="Pending", minRes={"cpu": 16}, pod_options={"gates": ["somebody.example.com/gate"]})
    world.step()
    return world


def reserving() -> World:
    """Nodes are kept for a gang of four."""
    world = full()
    world.job("target", 4)
    world.step()
    assert world.locked
    return world


def a_node_leaves() -> World:
    world = reserving()
    world.end("small3")
    world.cache.node_changed(objects.node(["n3", 4, "8Gi"]), None)
    return world


def its_queue_changes(*state: str, **options) -> World:
    world = reserving()
    world.cache.queue_changed(queue("q"), queue("q", *state, **options))
    return world


PODS_MISSING = "4 pods of its gang are missing or wait behind a scheduling gate"
WAYS = {
    "its pods never come": (pods_never_come, PODS_MISSING),
    "its pods are gated": (pods_are_gated, PODS_MISSING),
    "a node leaves": (a_node_leaves, "the nodes that it may use do not hold it even when they are empty"),
    "its queue is closed": (lambda: its_queue_changes("Closed"), "queue q is closed"),
    "its queue is limited": (lambda: its_queue_changes(capability={"cpu": 15}), "it asks for more than queue q may have"),
}


@pytest.mark.parametrize(("way", "why"), WAYS.values(), ids=WAYS)
def test_a_reservation_whose_job_cannot_start_is_released_with_an_event_and_not_renewed(way, why):
    world = way()
    for number in range(2):
        world.job(f"late{number}", 1, cpu=2, queue="r")
        world.end(f"small{number}")
    for _ in range(10):
        world.step()
    assert "t/target" not in world.reservations
    assert ("t/target", "ReservationReleased") in world.notes
    assert any(why in each for each in world.said)
    assert {"late0-0", "late1-0"} <= world.binds.keys()
    elections = world.notes.count(("t/target", "ReservationTarget"))
    for _ in range(50):
        world.step()
    assert world.notes.count(("t/target", "ReservationTarget")) == elections, "it does not come back as nothing changed"


def test_a_job_above_its_queue_capability_is_neither_a_reservation_target_nor_enqueued():
    world = World(arguments=ALL_AT_ONCE)
    feed(world.cache, {"queues": [["small", {"capability": {"cpu": 4}}]]})
    world.job("target", 2, queue="small", phase="Pending", minRes={"cpu": 8})
    for _ in range(5):
        world.step()
    assert not world.notes.count(("t/target", "ReservationTarget"))
    assert world.phases.get("t/target", "Pending") == "Pending"


def test_a_reservation_is_kept_while_pods_of_its_job_are_still_being_created():
    world = full()
    world.options["target"] = {}
    feed(world.cache, {"podgroups": [["target", "q", 4, {"phase": "Pending", "minRes": {"cpu": 16}}]]})
    world.step()
    for number in range(4):
        for _ in range(PATIENCE - 1):
            world.step()
        assert set(world.reservations) == {"t/target"}
        feed(world.cache, {"pods": [[f"target-{number}", "target", "-", 4, 0]]})
    for number in range(4):
        world.end(f"small{number}")
    world.step(seconds=1)
    world.step(seconds=1)
    assert {f"target-{number}" for number in range(4)} <= world.binds.keys()
