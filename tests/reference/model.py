"""Nodes, queues, jobs and tasks as a case describes them; see the catalogue of scenarios for the tables."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from .amounts import amounts, is_empty, plus

PENDING, ALLOCATED, PIPELINED, BINDING, BOUND, RUNNING = "Pending", "Allocated", "Pipelined", "Binding", "Bound", "Running"
RELEASING, SUCCEEDED, FAILED = "Releasing", "Succeeded", "Failed"
HAVING_A_NODE = (ALLOCATED, BINDING, BOUND, RUNNING)
DEFAULT_CREATED = -3600
UNITS = {"s": 1, "m": 60, "h": 3600}
NODE_WORDS = {"images", "pods", "labels", "taints", "unschedulable", "annotations", "used", "idle"}


def created(options) -> float:
    """Seconds, the time of the session being 0."""
    if "age" in options:
        return -seconds(options["age"])
    return DEFAULT_CREATED + options.get("created", 0)


def seconds(text) -> float:
    return sum(float(n) * UNITS[unit] for n, unit in re.findall(r"([\d.]+)([smh])", text))


@dataclass(eq=False)
class Node:
    name: str
    allocatable: dict
    labels: dict
    taints: list
    unschedulable: bool = False
    annotations: dict = field(default_factory=dict)


@dataclass(eq=False)
class Queue:
    name: str
    options: dict[str, Any]

    def __post_init__(self):
        self.created = created(self.options)
        self.weight = self.options.get("weight", 1)
        self.priority = self.options.get("priority", 0)
        self.is_open = self.options.get("state", "Open") == "Open"
        self.is_reclaimable = self.options.get("reclaimable", True)
        self.parent = self.options.get("parent", "")
        self.capability = amounts(self.options.get("capability"))
        self.deserved = amounts(self.options.get("deserved"))
        self.guarantee = amounts(self.options.get("guarantee"))


@dataclass(eq=False)
class Task:
    name: str
    job: str
    node: str
    status: str
    request: dict
    options: dict[str, Any]

    def __post_init__(self):
        options = self.options
        self.uid = f"t-{self.name}"
        self.created = created(options)
        self.role = options.get("role", options.get("labels", {}).get("volcano.sh/task-spec", ""))
        self.priority = options.get("prio", 1)
        self.given_priority = options.get("prio")
        self.preemptable = options.get("pre", True)
        self.never = bool(options.get("never"))
        self.labels = options.get("labels", {})
        self.annotations = dict(options.get("annotations", {}))
        if not self.preemptable:
            self.annotations["volcano.sh/preemptable"] = "false"
        self.has_claims = any(options.get(key) for key in ("pvc", "ephemeral", "claim"))
        self.is_gated = bool(options.get("gates"))
        self.is_best_effort = is_empty(self.request)
        self.namespace = options.get("ns", "t")
        self.nominated = options.get("nominated", "")
        self.evicted_others = False

    def comes_before(self, other) -> bool:
        """The order of tasks that no plugin says anything about."""
        own, others = number_of(self.name), number_of(other.name)
        if own is not None and others is not None and own != others:
            return own < others
        return (self.created, self.uid) < (other.created, other.uid)


def number_of(name: str) -> int | None:
    parts = name.split("-")
    return int(parts[-1]) if len(parts) >= 3 and parts[-1].isdigit() else None


@dataclass(eq=False)
class Job:
    name: str
    queue: str
    minimum: int
    options: dict[str, Any]
    tasks: list[Task] = field(default_factory=list)

    def __post_init__(self):
        options = self.options
        self.uid = f"t/{self.name}"
        self.created = created(options)
        self.phase = options.get("phase", "Inqueue")
        self.priority = options.get("class") or 0
        self.roles = options.get("roles") or {}
        self.has_min_resources = options.get("minRes") is not None
        self.min_resources = amounts(options.get("minRes"))
        self.annotations = options.get("annotations", {})
        self.preemptable = self.annotations.get("volcano.sh/preemptable") == "true"
        self.is_limited = False  # whether a quota kept tasks from being tried
        self.failed: set[str] = set()  # tasks that were tried and fit nowhere, by name

    def count(self, *statuses, role=None) -> int:
        return sum(task.status in statuses and role in {None, task.role} for task in self.tasks)

    @property
    def is_pending(self) -> bool:
        return self.phase == "Pending"

    @property
    def ready(self) -> int:
        return self.count(*HAVING_A_NODE, SUCCEEDED)

    @property
    def waiting_best_effort(self) -> int:
        return sum(task.status == PENDING and task.is_best_effort for task in self.tasks)

    @property
    def is_ready(self) -> bool:
        return self.ready + self.waiting_best_effort >= self.minimum

    @property
    def lacks_members(self) -> bool:
        """Whether it started, and has fewer members than its minimum."""
        return self.count(*HAVING_A_NODE) > 0 and not self.is_ready

    @property
    def is_pipelined(self) -> bool:
        return self.ready + self.count(PIPELINED) + self.waiting_best_effort >= self.minimum

    @property
    def allocated(self) -> dict:
        """Requests of the tasks that have a node."""
        return plus(*(task.request for task in self.tasks if task.status in HAVING_A_NODE))


@dataclass(eq=False)
class Cluster:
    nodes: list[Node]
    queues: dict[str, Queue]
    jobs: dict[str, Job]  # those of known queues
    tasks: list[Task]  # all pods, also those of no job
    hyper_nodes: dict  # name → (tier, members)
    tables: dict  # the case itself, for the tables that only one plugin reads


def read(case) -> Cluster:
    """The cluster of a case."""
    nodes = []
    for row in case["nodes"]:
        name, cpu, memory, options = [*row, {}][:4]
        extra = {key: value for key, value in options.items() if key not in NODE_WORDS}
        room = amounts({"cpu": cpu, "memory": memory, "pods": options.get("pods", 10), **extra})
        taints = [taint(text) for text in options.get("taints", [])]
        nodes.append(
            Node(
                name, room, options.get("labels", {}), taints, options.get("unschedulable", False), options.get("annotations", {})
            )
        )
    queues = {row[0]: Queue(row[0], dict([*row, {}][1])) for row in case["queues"]}
    jobs = {}
    for row in case["podgroups"]:
        name, queue, minimum, options = [*row, {}][:4]
        jobs[name] = Job(name, queue, minimum, options)
    tasks = []
    for row in case["pods"]:
        name, group, where, cpu, memory, options = [*row, {}][:6]
        extra = {key: value for key, value in options.items() if "/" in key}
        request = {"cpu": 0, "memory": 0} | amounts({"cpu": cpu, "memory": memory, **extra}) | {"pods": 1}
        phase = options.get("phase", "Pending" if where == "-" else "Running")
        status = phase if phase != "Pending" else PENDING if where == "-" else BOUND
        if options.get("releasing") and phase in {"Pending", "Running"}:
            status = RELEASING
        task = Task(name, group, "" if where == "-" else where, status, request, options)
        tasks.append(task)
        if group in jobs:
            jobs[group].tasks.append(task)
    known = {name: job for name, job in jobs.items() if job.queue in queues}
    return Cluster(nodes, queues, known, tasks, case.get("hypernodes") or {}, case)


def taint(text: str) -> dict:
    body, _, effect = text.rpartition(":")
    key, _, value = body.partition("=")
    return {"key": key, "value": value, "effect": effect}
