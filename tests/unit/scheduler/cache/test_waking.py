"""Jobs at rest miss nothing: a session over those that were woken decides what one over all jobs would, where some evict."""

import random
from dataclasses import replace

import pytest

from pyroclast_scheduler import registry
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.cycle import run_cycle
from pyroclast_scheduler.session.configuration import parse
from pyroclast_scheduler.session.ports import Ports
from tests.counts import ONE_IN
from tests.scenarios import objects
from tests.scenarios.taking import take

CONFIGURATIONS = {
    "preempt": "allocate, preempt",
    "reclaim": "allocate, reclaim",
    "both": "allocate, preempt, reclaim",
    "gangs": "allocate, gangpreempt, gangreclaim",
}
TIERS = """
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""
QUEUES = ("a", "b")
NODES = 4


class World:
    """A small cluster in which things come, change and go at random."""

    def __init__(self, random_, actions):
        self.random = random_
        self.configuration = parse(f"actions: {actions}{TIERS}", actions=registry.actions(), plugins=registry.plugins())
        self.cache = Cache()
        self.jobs = {}
        self.pods = {}
        self.count = 0
        self.memory = {}
        for name in QUEUES:
            self.cache.queue_changed(None, objects.queue([name, {"weight": random_.randint(1, 3)}]))
        for rank in range(3):
            self.cache.priority_changed(None, objects.priority_class(rank))
        for i in range(NODES):
            self.cache.node_changed(None, objects.node([f"n{i}", random_.choice((4, 8)), "64Gi"]))
        for _ in range(2 * NODES):
            self.job_comes()

    def jobs_come(self):
        """Some that are of one kind, or a single one."""
        state = self.random.getstate()
        for _ in range(self.random.choice((1, 4))):
            self.random.setstate(state)
            self.job_comes()

    def job_comes(self):
        self.count += 1
        name, size = f"j{self.count}", self.random.randint(1, 3)
        queue, rank, is_running = self.random.choice(QUEUES), self.random.randint(0, 2), self.random.random() < 0.6
        cpu, minimum = self.random.randint(1, 6), self.random.randint(1, size)
        self.jobs[name] = group = objects.pod_group([name, queue, minimum, {"class": rank}])
        self.cache.group_changed(None, group)
        for i in range(size):
            row = [f"{name}-{i}", name, "-", cpu, "1Gi", {"prio": rank, "pre": self.random.random() < 0.4}]
            where = f"n{self.random.randrange(NODES)}"
            free = self.cache.nodes.columns.allocatable - self.cache.nodes.columns.used
            if is_running and free[0, self.cache.nodes.rows[where]] >= 1000 * cpu:
                row[2] = where
            self.pod_is(row)

    def pod_is(self, row):
        old = self.pods.get(row[0])
        self.cache.pod_changed(None if old is None else objects.pod(old), objects.pod(row))
        self.pods[row[0]] = row

    def pod_goes(self):
        if self.pods:
            _, row = self.pods.popitem() if self.random.random() < 0.3 else self._any()
            self.pods.pop(row[0], None)
            self.cache.pod_changed(objects.pod(row), None)

    def pod_changes(self):
        _, row = self._any()
        if row[2] != "-":
            options = row[5] | {"pre": not row[5].get("pre", True)}
            self.pod_is([*row[:5], options])

    def queue_changes(self):
        name = self.random.choice(QUEUES)
        old = self.cache.queues[name].record
        self.cache.queue_changed(old, objects.queue([name, {"weight": self.random.randint(1, 5)}]))

    def node_changes(self):
        name = f"n{self.random.randrange(NODES)}"
        old = self.cache.nodes.records[self.cache.nodes.rows[name]]
        self.cache.node_changed(old, objects.node([name, self.random.choice((4, 8, 16, 32)), "64Gi"]))

    def _any(self):
        if not self.pods:
            self.job_comes()
        return self.random.choice(sorted(self.pods.items(), key=lambda item: item[0]))

    def change(self):
        often = [self.pod_changes] * 4
        self.random.choice([self.jobs_come, self.pod_goes, self.queue_changes, self.node_changes, *often])()

    def decided(self, snapshot, memory):
        commits = []
        outcome = run_cycle(
            snapshot,
            self.configuration,
            actions=registry.actions(),
            plugins=registry.plugins(),
            ports=Ports(objects.NOW, commits.append, memory=memory),
            uid="u",
        )
        binds = {pair for commit in commits for each in commit.binds for pair in each.placed}
        return outcome, binds, {each.task.uid for commit in commits for each in commit.evictions}

    def session(self):
        """What a session decides over the jobs that are awake, and what it would decide over all of them."""
        snapshot = self.cache.snapshot()
        everybody = replace(
            snapshot,
            jobs=list(snapshot.all_jobs.values()),
            columns=snapshot.columns.copy(),
            is_ready=snapshot.is_ready.copy(),
            lines=(),
        )
        _, *want = self.decided(everybody, {})
        outcome, *found = self.decided(snapshot, self.memory)
        for uid, node in sorted(found[0]):
            self.cache.assume(uid, node)
            self._is_bound(uid, node)
        for uid in found[1]:
            row = self.pods.pop(uid.removeprefix("t-"))
            self.cache.pod_changed(objects.pod(row), None)
        take(self.cache, outcome)
        return found, want, len(snapshot.jobs)

    def _is_bound(self, uid, node):
        row = self.pods[uid.removeprefix("t-")]
        self.pod_is([row[0], row[1], node, *row[3:]])


@pytest.mark.parametrize("name", CONFIGURATIONS)
@pytest.mark.parametrize("seed", range(8 // ONE_IN))
def test_a_session_over_the_woken_decides_what_one_over_all_would(name, seed):
    world = World(random.Random(seed), CONFIGURATIONS[name])
    looked_at = 0
    for _ in range(15):
        world.change()
        for _ in range(2):
            found, want, count = world.session()
            assert found == want
            looked_at += count
    assert looked_at
