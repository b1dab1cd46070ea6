"""A cluster over weeks in virtual time in which all names change: nodes, labels, namespaces, Jobs, queues, claims, classes.

`python -m tests.unit.scheduler.cache.turnover DAYS STEPS` prints for each day what the scheduler holds, and the binds so far.
"""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections import deque
from random import Random
from typing import Any

import msgspec

from pyroclast.api import keys, records
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.model.tasks import TaskStatus
from tests.scenarios import objects
from tests.scenarios.taking import assume_all, take
from tests.unit.scheduler.deciding import committed, configured

CONFIGURATION = """
actions: "enqueue, elect, allocate, preempt, reclaim, backfill, reserve"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: reservation}, {name: sla}, {name: pdb}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}, {name: binpack}, {name: overcommit},
    {name: task-topology}, {name: network-topology-aware},
    {name: deviceshare, arguments: {deviceshare.VGPUEnable: true}}]
"""
NODES, RACK = 16, 4
QUEUES, NAMESPACES, CLASSES = 4, 4, 2
PERIODS = 60  # schedule periods in a step: fewer than really go by
LONGEST = 8  # steps that a Job runs
JOBS = 16


class Turnover:
    """`day` lets one of so many steps go by. `kept`: what the scheduler holds then, in bytes."""

    def __init__(self, *, steps: int, seed: int = 0) -> None:
        self.steps = steps
        tracemalloc.start()
        self.before = _held()
        self.random = Random(seed)
        self.cache = Cache()
        self.settings = configured(CONFIGURATION)
        self.memory: dict[str, Any] = {}
        self.reservations: Any = None
        self.number = self.period = self.binds = 0
        self.key = self.name("key")  # of a label; the scheduler keeps the last 256 that are named, so a new one comes once a day
        self.nodes: deque[list] = deque()
        self.queues: deque[str] = deque()
        self.namespaces: deque[str] = deque()
        self.classes: deque[str] = deque()
        self.hyper_nodes: list[records.HyperNode] = []
        self.jobs: dict[str, tuple[records.PodGroup, list[str], int]] = {}  # with its claims, and when it ends
        for turn, count in ((self.node, NODES), (self.queue, QUEUES), (self.namespace, NAMESPACES), (self.rank, CLASSES)):
            for _ in range(count):
                turn()

    def day(self) -> None:
        self.key = self.name("key")
        for step in range(self.steps):
            self.step(step)

    @property
    def kept(self) -> int:
        return _held() - self.before

    def name(self, of: str) -> str:
        self.number += 1
        return f"{of}-{self.number:08d}"

    def step(self, step: int) -> None:
        self.period += PERIODS
        self.end_jobs()
        while len(self.jobs) < JOBS:
            self.job()
        self.node()
        if step % 4 == 0:
            self.queue()
            self.namespace()
            self.rank()
        for _ in range(PERIODS):
            self.cache.recheck()
        self.cycle()

    # -- what comes and goes -------------------------------------------------------------------------------------------

    def node(self) -> None:
        """Another node, of another pool; the oldest goes with its pods."""
        name = self.name("node")
        labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": self.name("zone"), self.key: "x"}
        cards = f"GPU-{name},4,8000,NVIDIA-A100,true,hami-core:"
        extra = {"volcano.sh/vgpu-number": 4, "volcano.sh/vgpu-memory": 8000}
        row = [name, 16, "64Gi", {"labels": labels, "annotations": {"volcano.sh/node-vgpu-register": cards}, **extra}]
        self.nodes.append(row)
        self.cache.node_changed(None, objects.node(row))
        if len(self.nodes) > NODES:
            gone = self.nodes.popleft()
            for task in [task for task in self.cache.tasks.values() if task.node == gone[0]]:
                self.cache.pod_changed(task.pod, None)
            self.cache.node_changed(objects.node(gone), None)
        for old in self.hyper_nodes:
            self.cache.object_changed(old, None)
        names = [row[0] for row in self.nodes]
        racks = [names[at : at + RACK] for at in range(0, len(names), RACK)]
        self.hyper_nodes = [objects.hyper_node(self.name("rack"), 1, rack, {}) for rack in racks]
        for new in self.hyper_nodes:
            self.cache.object_changed(None, new)

    def queue(self) -> None:
        name = self.name("queue")
        self.queues.append(name)
        self.cache.queue_changed(None, objects.queue([name, {"capability": {"cpu": 200}}]))
        if len(self.queues) > QUEUES:
            gone = self.queues.popleft()
            self.end_jobs(lambda group: group.spec.queue == gone)
            self.cache.queue_changed(self.cache.queues[gone].record, None)

    def namespace(self) -> None:
        name = self.name("namespace")
        self.namespaces.append(name)
        self.cache.object_changed(None, _record(records.Namespace, name))
        if len(self.namespaces) > NAMESPACES:
            gone = self.namespaces.popleft()
            self.end_jobs(lambda group: group.metadata.namespace == gone)
            self.cache.object_changed(_record(records.Namespace, gone), None)

    def rank(self) -> None:
        name = self.name("class")
        self.classes.append(name)
        self.cache.priority_changed(None, _record(records.PriorityClass, name, value=self.random.randint(1, 9)))
        if len(self.classes) > CLASSES:
            self.cache.priority_changed(self.cache.priorities[self.classes.popleft()], None)

    def job(self) -> None:
        """A gang with a run id, a claim, a term or a device of its own; a few can never start."""
        chance, name = self.random.random, self.name("job")
        namespace, size = self.random.choice(self.namespaces), self.random.randint(1, 4)
        annotations = {keys.RUNNING_ESTIMATE: f"{self.random.randint(1, 9)}h"} if chance() < 0.5 else {}
        body = {"ns": namespace, "annotations": annotations, "phase": "Pending", "minRes": {"cpu": 2 * size}}
        group = objects.pod_group([name, self.random.choice(self.queues), size, body])
        ranked = msgspec.structs.replace(group.spec, priority_class_name=self.random.choice(self.classes))
        group = msgspec.structs.replace(group, spec=ranked)
        options: dict[str, Any] = {"ns": namespace, "labels": {"run": name, "app": self.name("app")}, "role": self.name("role")}
        claims: list[str] = []
        if chance() < 0.3:
            options["anti"] = {"key": "kubernetes.io/hostname", "run": name}
        elif chance() < 0.3:
            options["spread"] = {
                "key": "topology.kubernetes.io/zone", "maxSkew": 2, "when": "DoNotSchedule", "match": {"run": name}
            }  # fmt: skip
        if chance() < 0.3:
            claims.append(self.name("claim"))
            options["pvc"] = claims
            self.cache.object_changed(None, _claim(namespace, claims[0]))
            self.cache.object_changed(None, _record(records.PersistentVolume, f"volume-{claims[0]}"))
        if chance() < 0.3:
            options |= {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": self.random.choice((2000, 3000))}
        if chance() < 0.2:
            options["sel"] = {self.key: "x"} if chance() < 0.5 else {"kubernetes.io/hostname": self.nodes[-1][0]}
        self.jobs[f"{namespace}/{name}"] = group, claims, self.period + PERIODS * self.random.randint(2, LONGEST)
        self.cache.group_changed(None, group)
        for i in range(size):
            self.cache.pod_changed(None, objects.pod([f"{name}-{i}", name, "-", self.random.choice((2, 4)), "1Gi", options]))

    def end_jobs(self, ends: Any = None) -> None:
        for key, (group, claims, until) in list(self.jobs.items()):
            if not (ends(group) if ends is not None else until <= self.period):
                continue
            del self.jobs[key]
            for task in self.cache.groups.tasks_of(key):
                self.cache.pod_changed(task.pod, None)
            known = self.cache.groups.current(key)
            assert known is not None
            self.cache.group_changed(group, None)
            for name in claims:
                self.cache.object_changed(_claim(group.metadata.namespace, name), None)
                self.cache.object_changed(_record(records.PersistentVolume, f"volume-{name}"), None)

    # -- the scheduler -------------------------------------------------------------------------------------------------

    def cycle(self) -> None:
        snapshot = self.cache.snapshot()
        self.cache.groups.gone()
        ports: dict[str, Any] = {"period": self.period, "memory": self.memory, "reservations": self.reservations}
        outcome, commits = committed(snapshot, self.settings, now=objects.NOW + 60 * self.period, **ports)
        for commit in commits:
            for eviction in commit.evictions:
                self.cache.pod_changed(eviction.task.pod, None)
            for binds in commit.binds:
                assert assume_all(self.cache, binds.placed) is None
                for uid, node in binds.placed:
                    self.binds += 1
                    annotations: dict[str, str] = {}
                    for each in binds.preparations.get(uid, ()):
                        annotations |= each.annotations
                    self.runs(uid, node, annotations)
        take(self.cache, outcome)
        self.cache.reserve(self.reservations or {}, outcome.reservations or {})
        self.reservations = dict(outcome.reservations or {})

    def runs(self, uid: str, node: str, annotations: dict[str, str]) -> None:
        """The pod as its node tells of it."""
        old = self.cache.tasks[uid].pod
        body = msgspec.to_builtins(old)
        body["metadata"]["annotations"] |= annotations
        body["spec"]["nodeName"], body["status"]["phase"] = node, "Running"
        body["status"]["startTime"] = objects.timestamp(objects.NOW + 60 * self.period)
        self.cache.pod_changed(old, msgspec.convert(body, records.Pod))
        assert self.cache.tasks[uid].status is TaskStatus.RUNNING


def _held() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def _record(kind: type, name: str, **more: Any) -> Any:
    return msgspec.convert({"metadata": {"name": name, "uid": name}, **more}, kind)


def _claim(namespace: str, name: str) -> records.PersistentVolumeClaim:
    metadata = {"namespace": namespace, "name": name, "uid": name, "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    body = {"metadata": metadata, "spec": {"volumeName": f"volume-{name}"}, "status": {"phase": "Bound"}}
    return msgspec.convert(body, records.PersistentVolumeClaim)


def main(days: int, steps: int) -> None:
    cluster = Turnover(steps=steps)
    for _ in range(days):
        cluster.day()
        print(cluster.kept, cluster.binds, flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
