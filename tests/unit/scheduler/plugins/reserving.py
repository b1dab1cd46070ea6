"""A cluster in virtual time for tests of reservations: real cache and sessions, and pods that run as soon as they are placed."""

from __future__ import annotations

import msgspec

from pyroclast_scheduler.cache.cache import Cache
from tests.scenarios import objects
from tests.scenarios.runner import feed
from tests.scenarios.taking import take_rests
from tests.unit.scheduler import deciding

CONFIGURATION = """
actions: "enqueue, elect, allocate, backfill, reserve"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: reservation, arguments: %s}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}, {name: binpack}]
"""


def configured(arguments: str = "{}"):
    return deciding.configured(CONFIGURATION % arguments)


class World:
    """A cluster whose pods run as soon as they are bound; `steps` lets schedule periods pass."""

    def __init__(self, nodes: int = 4, arguments: str = "{}") -> None:
        self.cache = Cache()
        self.settings = configured(arguments)
        self.now = objects.NOW
        self.period = 0
        self.reservations = None
        self.memory: dict = {}
        self.released: set[str] = set()
        self.binds: dict[str, str] = {}
        self.evicted: list[str] = []
        self.notes: list[tuple[str, str]] = []
        self.said: list[str] = []
        self.waiting: dict[str, str] = {}
        self.rows: dict[str, list] = {}
        self.options: dict[str, dict] = {}
        self.lengths: dict[str, float] = {}
        self.conditions: dict[str, str] = {}
        self.phases: dict[str, str] = {}
        feed(self.cache, {"nodes": [[f"n{i}", 4, "8Gi"] for i in range(nodes)], "queues": [["q", {}], ["r", {}]]})

    def job(
        self, name: str, pods: int, cpu: int = 4, *, node: str = "-", queue: str = "q", pod_options=None, start=None, **options
    ):
        """`node`: of all pods, or a list; `start`: seconds from now at which those that have one began."""
        group = [name, queue, pods, {"phase": "Running" if node != "-" else "Inqueue", **options}]
        self.options[name] = pod_options or {}
        self.rows[name] = group
        where = [node] * pods if isinstance(node, str) else node
        rows = [[f"{name}-{i}", name, where[i], cpu, 0, self.options[name]] for i in range(pods)]
        feed(self.cache, {"podgroups": [group], "pods": rows})
        if start is not None:
            for task in self.cache.groups.tasks_of(f"t/{name}"):
                self.cache.pod_changed(task.pod, self.running(task.pod, self.now + start))

    @staticmethod
    def running(pod, start):
        """The pod as its node tells of it."""
        status = {**msgspec.to_builtins(pod.status), "phase": "Running", "startTime": objects.timestamp(start)}
        return msgspec.convert({**msgspec.to_builtins(pod), "status": status}, type(pod))

    def end(self, name: str) -> None:
        for task in [task for task in self.cache.tasks.values() if task.job == f"t/{name}"]:
            self.cache.pod_changed(task.pod, None)
        self.cache.group_changed(objects.pod_group(self.rows[name]), None)

    def shrink(self, name: str) -> None:
        """One pod less of a job of which all wait, as its user scales it down."""
        tasks = self.cache.groups.tasks_of(f"t/{name}")
        if len(tasks) > 1 and not any(task.node for task in tasks):
            last = max(tasks, key=lambda task: task.name)
            self.cache.pod_changed(last.pod, None)
            before, self.rows[name] = self.rows[name], [*self.rows[name][:2], len(tasks) - 1, *self.rows[name][3:]]
            self.cache.group_changed(objects.pod_group(before), objects.pod_group(self.rows[name]))

    def step(self, *, seconds: float = 1.0, periods: int = 1) -> None:
        self.now += seconds
        self.period += periods
        self.cache.recheck()
        given = {"period": self.period, "reservations": self.reservations, "memory": self.memory}
        outcome, commits = deciding.committed(self.cache, self.settings, now=self.now, **given)
        take_rests(self.cache, outcome)
        self.cache.reserve(self.reservations or {}, outcome.reservations)
        self.reservations = dict(outcome.reservations)
        self.released = set(outcome.released)
        self.notes += [(note.job, note.reason) for note in outcome.notes]
        self.said += [note.message for note in outcome.notes]
        self.waiting = {each.task.name: each.message for each in outcome.waiting}
        for commit in commits:
            for eviction in commit.evictions:
                self.evicted.append(eviction.task.name)
                self.cache.pod_changed(eviction.task.pod, None)
            for binds in commit.binds:
                for uid, node in binds.placed:
                    task = self.cache.tasks[uid]
                    self.binds[task.name] = node
                    row = [task.name, task.job.removeprefix("t/"), node, task.shape.request["cpu"] // 1000, 0]
                    placed = objects.pod([*row, self.options[row[1]]])
                    self.cache.pod_changed(task.pod, self.running(placed, self.now))
        for key, status in outcome.statuses.items():
            self.cache.groups.believe(key, status)
            self.phases[key] = str(status.phase)
            self.conditions[key] = " ".join(condition.message for condition in status.conditions)

    @property
    def locked(self) -> set[str]:
        return {node for each in (self.reservations or {}).values() for node in each.nodes}
