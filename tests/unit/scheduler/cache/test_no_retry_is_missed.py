"""Jobs at rest miss nothing: a session over those that were woken decides what one over all jobs would, where some evict."""

import random
from contextlib import nullcontext
from dataclasses import replace
from unittest.mock import patch

import msgspec
import numpy as np
import pytest

from pyroclast.api import keys, records
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.eviction import search
from pyroclast_scheduler.eviction.freeable import Freeable
from pyroclast_scheduler.model.objects import Objects
from tests.counts import ONE_IN
from tests.scenarios import objects
from tests.scenarios.taking import take
from tests.unit.scheduler.deciding import committed, configured

PLAIN = {
    "preempt": "allocate, preempt",
    "reclaim": "allocate, reclaim",
    "both": "allocate, preempt, reclaim",
    "gangs": "allocate, gangpreempt, gangreclaim",
}
MIXED = {
    "filling": ("allocate", ""),
    "capped": ("allocate", "", "capacity"),
    "limited": ("allocate, preempt", "", "capacity"),
    "evicting": ("allocate, preempt, reclaim", ""),
    "deserving": ("allocate, reclaim", "", "capacity"),
    "devices": ("allocate, preempt", "{name: deviceshare, arguments: {deviceshare.VGPUEnable: true}}, "),
    "reservation": ("enqueue, elect, allocate, reserve", "{name: reservation}, "),
    "by queue": (
        "enqueue, elect, allocate, reserve",
        "{name: reservation, arguments: {targetScope: queue, assumeDuration: 9s}}, ",
    ),
    "draining": ("enqueue, elect, allocate, preempt, reserve", "{name: reservation, arguments: {preemptive: true}}, "),
}
TIERS = """
actions: %s
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [%s{name: drf}, {name: predicates}, {name: %s}, {name: nodeorder}]
"""
QUEUES = ("a", "b")
AMOUNTS = ("of_queue", "of_losing")
NODES = 4
MOST_JOBS = 10  # beyond it more go than come
SOAK = 1_000_000


class World:
    """A small cluster in which things come, change and go at random.

    `is_mixed`: Jobs have labels of their own, claims, terms, devices and estimates, and nodes send heartbeats.
    """

    def __init__(self, random_, actions, plugin="", quota="proportion", *, is_mixed=False):
        self.random, self.is_mixed = random_, is_mixed
        self.configuration = configured(TIERS % (actions, plugin, quota))
        self.has_devices, self.reserves = "deviceshare" in plugin, "reserve" in actions
        self.deserves = quota == "capacity" and "reclaim" in actions
        self.cache = Cache()
        self.jobs = {}
        self.pods = {}
        self.nodes = {}
        self.count = self.period = 0
        self.reservations = None
        self.memory = {}
        self.kept = set()
        for name in QUEUES:
            self.cache.queue_changed(None, objects.queue([name, {"weight": random_.randint(1, 3)}]))
        for rank in range(3):
            self.cache.priority_changed(None, objects.priority_class(rank))
        for i in range(NODES):
            self.node_is(f"n{i}", random_.choice((4, 8)))
        if is_mixed:
            self.cache.object_changed(None, claim("data", volume="volume"))
            self.cache.object_changed(None, volume("volume"))
        for _ in range(2 * NODES):
            self.job_comes()

    def node_is(self, name, cpu):
        old = self.nodes.get(name)
        options = {"labels": {"kubernetes.io/hostname": name}}
        if self.has_devices:
            cards = "".join(f"GPU-{name}-{card},4,8000,NVIDIA-A100,true,hami-core:" for card in range(2))
            options["annotations"] = {"volcano.sh/node-vgpu-register": cards}
            options |= {"volcano.sh/vgpu-number": 8, "volcano.sh/vgpu-memory": 16_000}
        self.nodes[name] = [name, cpu, "64Gi", options]
        self.cache.node_changed(None if old is None else objects.node(old), objects.node(self.nodes[name]))

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
        options, annotations = self.manners(name) if self.is_mixed else ({}, {})
        self.jobs[name] = group = objects.pod_group([name, queue, minimum, {"class": rank, "annotations": annotations}])
        self.cache.group_changed(None, group)
        is_running &= not any("/" in key for key in options) and "claim" not in options
        for i in range(size):
            row = [f"{name}-{i}", name, "-", cpu, "1Gi", {"prio": rank, "pre": self.random.random() < 0.4, **options}]
            where = f"n{self.random.randrange(NODES)}"
            free = self.cache.nodes.columns.allocatable - self.cache.nodes.columns.used
            if is_running and where in self.nodes and free[0, self.cache.nodes.rows[where]] >= 1000 * cpu:
                row[2] = where
            self.pod_is(row)

    def manners(self, name):
        """What real Jobs carry: options of the pods, and annotations of the PodGroup."""
        chance, host = self.random.random, "kubernetes.io/hostname"
        options, annotations = {"labels": {"app": self.random.choice("xy")}}, {}
        if chance() < 0.5:
            options["labels"]["run"] = name
        if chance() < 0.2:
            options["anti"] = {"key": host, **self.random.choice([options["labels"], {"app": "x"}])}
        elif chance() < 0.1:
            options["affine"] = {"key": host, "app": "y"}
        if chance() < 0.2:
            options["pvc"] = ["data"]
        if self.has_devices and chance() < 0.5:
            options |= {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": self.random.choice((2000, 4000, 8000))}
        if self.reserves and chance() < 0.5:
            annotations[keys.RUNNING_ESTIMATE] = self.random.choice(("1s", "5s", "1h"))
        return options, annotations

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

    def job_goes(self):
        """A Job of which no pod is left, or one that nobody wants any more."""
        if not self.jobs:
            return
        name = self.random.choice(sorted(self.jobs))
        for row in [row for row in self.pods.values() if row[1] == name]:
            del self.pods[row[0]]
            self.cache.pod_changed(objects.pod(row), None)
        self.cache.group_changed(self.jobs.pop(name), None)

    def queue_changes(self):
        name = self.random.choice(QUEUES)
        old = self.cache.queues[name].record
        options = {"weight": self.random.randint(1, 5)}
        if self.is_mixed:
            options["capability"] = self.random.choice([None, None, {"cpu": 12}])
        if self.deserves:
            options["deserved"] = self.random.choice([None, {"cpu": 4, "memory": "4Gi"}, {"cpu": 12, "memory": "12Gi"}])
        self.cache.queue_changed(old, objects.queue([name, options]))

    def node_changes(self):
        self.node_is(f"n{self.random.randrange(NODES)}", self.random.choice((4, 8, 16, 32)))

    def heartbeat(self):
        """A node says what nobody reads."""
        name = self.random.choice(sorted(self.nodes))
        old = self.nodes[name]
        annotations = {**old[3].get("annotations", {}), "seen": str(self.random.random())}
        self.nodes[name] = [*old[:3], {**old[3], "annotations": annotations}]
        self.cache.node_changed(objects.node(old), objects.node(self.nodes[name]))

    def claim_changes(self):
        """A claim that no pod mounts, or another annotation of one that pods do."""
        name = self.random.choice(("other", "data"))
        old = self.cache.objects.view().of(records.PersistentVolumeClaim).get(f"{objects.NAMESPACE}/{name}")
        new = claim(name, volume="volume" if name == "data" else "", seen=str(self.random.random()))
        self.cache.object_changed(old, new)

    def _any(self):
        if not self.pods:
            self.job_comes()
        return self.random.choice(sorted(self.pods.items(), key=lambda item: item[0]))

    def change(self):
        often = [self.pod_changes] * 4
        often += [self.job_goes] * (1 if len(self.jobs) < MOST_JOBS else 10)
        if self.is_mixed:
            often += [self.heartbeat, self.claim_changes, self.pod_goes]
        self.random.choice([self.jobs_come, self.pod_goes, self.queue_changes, self.node_changes, *often])()

    def decided(self, snapshot, memory, *, checks_amounts):
        """`checks_amounts`: whether a search for victims compares amounts on each node before it asks about the pods there."""
        endless = patch.multiple(Freeable, **dict.fromkeys(AMOUNTS, lambda *_: np.full_like(snapshot.columns.used, 2**50)))
        ports = {"memory": memory, "period": self.period, "reservations": self.reservations}
        with patch.multiple(search, _UNCHECKED=0, _JOBS_PER_NODE=2 * MOST_JOBS), nullcontext() if checks_amounts else endless:
            outcome, commits = committed(snapshot, self.configuration, now=objects.NOW + self.period, **ports)
        binds = {pair: each.preparations.get(pair[0], ()) for commit in commits for each in commit.binds for pair in each.placed}
        return outcome, binds, {each.task.uid for commit in commits for each in commit.evictions}

    def session(self):
        """What a session decides over the jobs that are awake, and what it would decide over all of them, and of each pod."""
        self.period += 1
        snapshot = self.cache.snapshot()
        everybody = replace(
            snapshot,
            jobs=list(snapshot.all_jobs.values()),
            columns=snapshot.columns.copy(),
            is_ready=snapshot.is_ready.copy(),
            candidates=(),
            objects=Objects(snapshot.objects.found),  # what it reads does not count as read
        )
        fresh, binds, evictions = self.decided(everybody, {}, checks_amounts=False)
        want = set(binds), evictions, fresh.reservations
        outcome, binds, evictions = self.decided(snapshot, self.memory, checks_amounts=True)
        found = set(binds), evictions, outcome.reservations
        kept = {(uid, place.node) for uid, place in outcome.kept.items()}
        if outcome.released.difference(outcome.reservations or ()) or self.kept - kept - set(binds):
            want = found  # nodes that a better target took from another, and places given up, wake others for the next session
        self.kept = kept
        for (uid, node), preparations in sorted(binds.items()):
            self.cache.pods.assume(uid, node)
            self._is_bound(uid, node, preparations)
        for uid in sorted(evictions):
            row = self.pods.pop(uid.removeprefix("t-"))
            self.cache.pod_changed(objects.pod(row), None)
        take(self.cache, outcome)
        if outcome.reservations is not None:
            self.cache.reserve(self.reservations or {}, outcome.reservations)
            self.reservations = dict(outcome.reservations)
        return found, want, len(snapshot.jobs)

    def _is_bound(self, uid, node, preparations):
        row = self.pods[uid.removeprefix("t-")]
        annotations = dict(row[5].get("annotations", {}))
        for each in preparations:
            annotations |= each.annotations
        self.pod_is([row[0], row[1], node, *row[3:5], {**row[5], "annotations": annotations}])


def claim(name, *, volume="", seen=""):
    annotations = {"pv.kubernetes.io/bind-completed": "yes", "seen": seen}
    metadata = {"namespace": objects.NAMESPACE, "name": name, "uid": name, "annotations": annotations}
    body = {"metadata": metadata, "spec": {"volumeName": volume}, "status": {"phase": "Bound" if volume else "Pending"}}
    return msgspec.convert(body, records.PersistentVolumeClaim)


def volume(name):
    return msgspec.convert({"metadata": {"name": name, "uid": name}}, records.PersistentVolume)


def walk(world, steps):
    """How many jobs sessions looked at in so many steps: each is a change, and after it come two sessions, one, or none."""
    looked_at = 0
    for step in range(steps):
        world.change()
        for _ in range(world.random.choice((0, 0, 1, 2))):
            found, want, count = world.session()
            looked_at += count
            is_late = bool(found[0]) and (found[0] < want[0] or found[:2] == want[:2])
            if found != want and is_late:  # these can go, or have nodes kept, where others of this session just went: next time
                late = {uid for uid, _ in want[0] - found[0]}
                found, want, count = world.session()
                assert late <= {uid for uid, _ in found[0]}, f"step {step}"
                looked_at += count
            assert found == want, f"step {step}"
    return looked_at


def world_of(name, seed):
    is_mixed = name in MIXED
    return World(random.Random(seed), *(MIXED[name] if is_mixed else (PLAIN[name],)), is_mixed=is_mixed)


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("seed", range(8 // ONE_IN))
def test_a_session_over_retried_jobs_decides_the_same_as_one_over_all_jobs(name, seed):
    assert walk(world_of(name, seed), 15)


@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize("seed", range(8 // ONE_IN))
def test_a_session_over_retried_jobs_with_claims_and_devices_decides_the_same_as_one_over_all(name, seed):
    assert walk(world_of(name, seed), 15)


@pytest.mark.parametrize(
    ("name", "seed", "steps"),
    [
        pytest.param("reclaim", 1185, 12, id="a node has room without an eviction, and its jobs may lose no pod"),
        pytest.param("gangs", 1309, 7, id="a victim on another node frees the quota of the queue"),
        pytest.param("devices", 1474, 13, id="a victim's job has just got a pod on another node"),
        pytest.param("draining", 1511, 8, id="a node is kept one session after another pod went there"),
    ],
)
def test_a_session_over_retried_jobs_decides_the_same_in_walks_that_once_differed(name, seed, steps):
    walk(world_of(name, seed), steps)


@pytest.mark.soak
@pytest.mark.parametrize("name", [*PLAIN, *MIXED])
def test_a_session_over_retried_jobs_decides_the_same_in_a_million_random_steps(name):
    steps = -(-SOAK // (1000 * (len(PLAIN) + len(MIXED))))
    for seed in range(1000):
        walk(world_of(name, 1000 + seed), steps)
