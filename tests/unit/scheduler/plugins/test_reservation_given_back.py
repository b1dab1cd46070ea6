"""A reservation ends when its job cannot start any more: the nodes go to others, and the job is told why."""

from __future__ import annotations

import msgspec
import pytest

from pyroclast_scheduler.plugins.reservation.plugin import PATIENCE
from tests.scenarios import objects
from tests.scenarios.runner import feed
from tests.unit.scheduler.plugins.reserving import World

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


def its_queue_is_closed() -> World:
    world = reserving()
    world.cache.queue_changed(queue("q"), queue("q", "Closed"))
    return world


def its_queue_is_limited() -> World:
    world = reserving()
    world.cache.queue_changed(queue("q"), queue("q", capability={"cpu": 15}))
    return world


WAYS = (pods_never_come, pods_are_gated, a_node_leaves, its_queue_is_closed, its_queue_is_limited)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_reservation_whose_job_cannot_start_is_released_with_an_event_and_not_renewed(way):
    world = way()
    for number in range(2):
        world.job(f"late{number}", 1, cpu=2, queue="r")
        world.end(f"small{number}")
    for _ in range(10):
        world.step()
    assert "t/target" not in world.reservations
    assert ("t/target", "ReservationReleased") in world.notes
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
