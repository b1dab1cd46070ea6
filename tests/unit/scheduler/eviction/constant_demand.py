"""A cluster with constant demand in virtual time: pods never end, and each evicted pod is created again by its controller."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.session.configuration import Configuration
from pyroclast_scheduler.session.ports import NodeUsage
from tests.scenarios import objects
from tests.scenarios.runner import feed
from tests.scenarios.taking import take
from tests.unit.scheduler import deciding


@dataclass(frozen=True, slots=True)
class Demand:
    """One Job: so many equal pods, of which `minimum` start together or not at all."""

    name: str
    queue: str
    pods: int
    minimum: int
    cpu: int
    memory: str
    priority: int = 0


@dataclass
class World:
    """The cluster. `graceful`: the steps for which an evicted pod keeps its room. `evictions`: of each step that had any."""

    settings: Configuration
    nodes: list[list[Any]]
    queues: list[list[Any]]
    demands: list[Demand]
    graceful: int = 1
    cache: Cache = field(default_factory=Cache)
    evictions: list[tuple[int, list[str]]] = field(default_factory=list)
    memory: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._step = 0
        self._made = 0
        self._going: list[tuple[int, str]] = []
        feed(self.cache, {"nodes": self.nodes, "queues": self.queues})
        self._demand = {f"t/{each.name}": each for each in self.demands}
        for each in self.demands:
            options = {"phase": "Pending"} | ({"class": each.priority} if each.priority else {})
            feed(self.cache, {"podgroups": [[each.name, each.queue, each.minimum, options]]})
            for _ in range(each.pods):
                self._make(each)

    def _make(self, demand: Demand) -> None:
        self._made += 1
        options = {"created": 3600 + self._step} | ({"prio": demand.priority} if demand.priority else {})
        feed(self.cache, {"pods": [[f"{demand.name}-{self._made}", demand.name, "-", demand.cpu, demand.memory, options]]})

    def step(self) -> list[str]:
        """Run one session, and let the kubelets and controllers do what it decided. Return the names of the evicted pods."""
        self._step += 1
        gone = [uid for due, uid in self._going if due <= self._step]
        self._going = [each for each in self._going if each[0] > self._step]
        for uid in gone:
            task = self.cache.tasks[uid]
            self.cache.pod_changed(task.pod, None)
            self._make(self._demand[task.job])
        self.cache.recheck()
        now = {"now": objects.NOW + self._step, "period": self._step}
        outcome, commits = deciding.committed(self.cache, self.settings, **now, memory=self.memory, usage=self)
        for waiting in outcome.waiting:
            if waiting.nominated:
                self.cache.pods.nominate(waiting.task.uid, waiting.nominated)
        take(self.cache, outcome)
        names = []
        for commit in commits:
            for eviction in commit.evictions:
                task = eviction.task
                names.append(task.name)
                pod = self.cache.tasks[task.uid].pod
                deleted = {"deletionTimestamp": objects.timestamp(objects.NOW + self._step)}
                self.cache.pod_changed(task.pod, objects.edited(pod, metadata=deleted))
                self._going.append((self._step + self.graceful, task.uid))
            for binds in commit.binds:
                for uid, node in binds.placed:
                    pod = self.cache.tasks[uid].pod
                    status = {"phase": "Running", "startTime": objects.timestamp(objects.NOW + self._step)}
                    self.cache.pod_changed(pod, objects.edited(pod, spec={"nodeName": node}, status=status))
        if names:
            self.evictions.append((self._step, names))
        return names

    def usage(self) -> dict[str, NodeUsage]:
        """The requests of the pods on each node, as if they were measured."""
        found = {}
        for name, cpu, memory in self.nodes:
            requests = [task.shape.request for task in self.cache.tasks.values() if task.node == name]
            has = 1000 * cpu, int(memory.removesuffix("Gi")) << 30
            used = (sum(each.get(resource, 0) for each in requests) for resource in ("cpu", "memory"))
            percents = [100 * part / whole for part, whole in zip(used, has, strict=True)]
            found[name] = NodeUsage({"10m": percents[0]}, {"10m": percents[1]}, objects.NOW + self._step)
        return found

    def running(self) -> dict[str, int]:
        """The number of pods on nodes by job."""
        found: dict[str, int] = {}
        for task in self.cache.tasks.values():
            if task.node:
                found[task.job] = found.get(task.job, 0) + 1
        return found


def steps_to_rest(world: World, most: int, *, quiet: int = 6) -> int | None:
    """Return the last step with an eviction, once `quiet` steps passed without any; None if there is none within `most` steps."""
    last = 0
    for step in range(1, most + 1):
        if world.step():
            last = step
        elif step - last >= quiet:
            return last
    return None
