"""Locks and the other actions: what is kept for a target is closed to every way in which another job could get there."""

from __future__ import annotations

import pytest

from pyroclast.api import keys
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
