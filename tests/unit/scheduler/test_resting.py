"""Jobs that wait cost nothing until something changes that may help them, or time does."""

import msgspec
import pytest

from pyroclast.api import records
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.model.waits import Rest
from tests.scenarios import objects


class World:
    """Two nodes, and a job at rest that only the larger one could take."""

    def __init__(self, **rest):
        self.cache = Cache()
        self.cache.queue_changed(None, objects.queue(["q"]))
        self.cache.node_changed(None, objects.node(["small", 4, "8Gi"]))
        self.cache.node_changed(None, objects.node(["large", 16, "8Gi"]))
        self.cache.group_changed(None, objects.pod_group(["g", "q", 1]))
        self.cache.pod_changed(None, objects.pod(["p", "g", "-", 9, "1Gi"]))
        self.rest(**rest)

    def rest(self, **rest):
        (facts,) = self.cache.snapshot().jobs
        self.cache.rest([Rest(facts, frozenset(task.shape for task in facts.tasks), **rest)])
        assert self.awake() == []

    def awake(self):
        return [facts.name for facts in self.cache.snapshot().jobs]


def test_time_wakes_in_the_next_schedule_period_and_nothing_else_before():
    world = World(is_timed=True)
    world.cache.pod_changed(None, objects.pod(["other", "", "small", 1, "1Gi"]))
    assert world.awake() == []
    world.cache.recheck()
    assert world.awake() == ["g"]
    world.rest(is_timed=True)  # and again in the period after
    world.cache.recheck()
    assert world.awake() == ["g"]


@pytest.mark.parametrize(("node", "want"), [("small", []), ("large", ["g"]), ("unknown", [])])
def test_an_object_of_one_node_wakes_those_that_the_node_could_take(node, want):
    world = World()
    topology = msgspec.convert({"metadata": {"name": node, "uid": "t"}}, records.Numatopology)
    world.cache.node_object_changed(None, topology)
    assert world.awake() == want


def test_any_other_object_wakes_everybody():
    world = World()
    world.cache.object_changed(None, msgspec.convert({"metadata": {"name": "large", "uid": "h"}}, records.HyperNode))
    assert world.awake() == ["g"]


def test_many_jobs_that_changed_are_worked_out_in_parts():
    cache = Cache()
    cache.queue_changed(None, objects.queue(["q"]))
    for i in range(120):
        cache.group_changed(None, objects.pod_group([f"g{i}", "q", 1]))
    assert [cache.prepare(), cache.prepare()] == [70, 20]
    cache.group_changed(None, objects.pod_group(["late", "q", 1]))
    assert len(cache.snapshot().jobs) == 121
    assert cache.prepare() == 0
