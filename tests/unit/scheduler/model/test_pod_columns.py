"""Columns of pods: sums by job and node are those of the pods that are there, and names that come and go leave no entries."""

import random

import numpy as np
import pytest

from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.model.pod_columns import PodColumns
from pyroclast_scheduler.model.tasks import EVICTABLE
from tests.scenarios import objects

NODES = 4
GPU = "example.com/gpu"


class World:
    """Nodes on which pods of jobs come, run, go and change their job."""

    def __init__(self, seed):
        self.draw, self.cache, self.columns = random.Random(seed), Cache(), PodColumns()
        self.pods, self.number = {}, 0
        for i in range(NODES):
            self.node(i)

    def node(self, i, **more):
        self.cache.node_changed(None, objects.node([f"n{i}", 64, "64Gi", more]))

    def pod_comes(self, job):
        self.number += 1
        options = self.draw.choice(({}, {"phase": "Pending"}, {"releasing": True}, {GPU: 1}))
        place = f"n{self.draw.randrange(NODES)}"
        row = [f"p{self.number}", job, place, self.draw.randint(1, 4), f"{self.draw.randint(1, 4)}Gi", options]
        self.pods[row[0]] = objects.pod(row)
        self.cache.pod_changed(None, self.pods[row[0]])

    def pod_goes(self):
        if self.pods:
            self.cache.pod_changed(self.pods.pop(self.draw.choice([*self.pods])), None)

    def snapshot(self):
        found = self.cache.snapshot()
        self.columns.update(found.residents, found.dimensions)
        return found


def naive(snapshot, jobs):
    found = np.zeros((len(snapshot.dimensions), len(snapshot.residents)), dtype=np.int64)
    for row, tasks in enumerate(snapshot.residents):
        for task in tasks:
            if task.job in jobs and task.status in EVICTABLE:
                found[:, row] += snapshot.dimensions.vector(task.shape.request)
    return found


@pytest.mark.parametrize("seed", range(20))
def test_pod_columns_sum_the_requests_of_the_pods_that_may_be_evicted(seed):
    world = World(seed)
    for step in range(40):
        world.draw.choice((world.pod_goes, lambda: world.pod_comes(world.draw.choice(("", "a", "b", "c")))))()
        if step == 20:
            world.node(1, **{GPU: 8})  # a further dimension
        snapshot = world.snapshot()
        there = {task.job for tasks in snapshot.residents for task in tasks if task.job and task.status in EVICTABLE}
        assert set(world.columns.jobs) == there
        chosen = {job for job in sorted(there) if world.draw.random() < 0.6}
        assert (world.columns.requests(chosen) == naive(snapshot, chosen)).all()


def test_pod_columns_do_not_grow_while_pods_and_jobs_are_replaced():
    world = World(0)
    for i in range(20):
        world.pod_comes(f"t/j{i}")
    world.snapshot()
    for i in range(200):
        world.pod_goes()
        world.pod_comes(f"t/late{i}")
        world.snapshot()
    assert len(world.columns._rows) <= 30
    assert len(world.columns._counts) == len(world.columns._keys) <= 22
