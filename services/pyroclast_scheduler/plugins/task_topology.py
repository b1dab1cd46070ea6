"""Plugin task-topology: related tasks of a job are placed on the same node, and others on different nodes.

Annotations of the PodGroup relate the roles of a job. Buckets collect the tasks that should share a node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final

import numpy as np

from pyroclast.api import keys
from pyroclast_scheduler.model.dimensions import CPU, MEMORY, PODS, Ints
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools, Floats
from pyroclast_scheduler.model.tasks import Task, TaskStatus
from pyroclast_scheduler.placement.plans import PlacementPlan
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.extension_points import Extensions, Rank
from pyroclast_scheduler.session.plugin_session import PluginSession
from pyroclast_scheduler.session.statement import Move

_MEBI = 2**20
_BEST: Final = 100
_ANNOTATIONS: Final = (keys.TASK_TOPOLOGY_AFFINITY, keys.TASK_TOPOLOGY_ANTI_AFFINITY, keys.TASK_TOPOLOGY_TASK_ORDER)


@dataclass(frozen=True, slots=True)
class Relations:
    """Pairs of roles; a pair of one role concerns the tasks of this role. `order`: a larger number is placed earlier."""

    together: frozenset[frozenset[str]] = frozenset()
    apart: frozenset[frozenset[str]] = frozenset()
    order: Mapping[str, int] = field(default_factory=dict)

    def concerns(self, role: str) -> bool:
        """Whether tasks of `role` have any relation."""
        return any(role in pair for pair in (*self.together, *self.apart))

    def priority(self, role: str) -> int:
        """Return the importance: anti-affinity within the role 4, affinity to others 3, within the role 2, the rest 1."""
        own = frozenset({role})
        joins, avoids = (any(role in pair and pair != own for pair in pairs) for pairs in (self.together, self.apart))
        return next((4 - at for at, holds in enumerate((own in self.apart, joins, own in self.together, avoids)) if holds), 0)

    def balance(self, role: str, others: Mapping[str, int], *, only_apart: bool = False) -> int:
        """Return the number of tasks in `others`, by role, that a task of `role` should join, less those that it should avoid."""
        pairs = ((frozenset({role, other}), count) for other, count in others.items())
        return sum(count * ((pair in self.together and not only_apart) - (pair in self.apart)) for pair, count in pairs)


def relations_of(annotations: Mapping[str, str], roles: Collection[str]) -> Relations | None:
    """Return the relations in annotations; None if there are none. A ValueError names a role that is double or unknown."""
    together = _groups(annotations.get(keys.TASK_TOPOLOGY_AFFINITY, ""))
    apart = _groups(annotations.get(keys.TASK_TOPOLOGY_ANTI_AFFINITY, ""))
    order = [name.strip() for name in annotations.get(keys.TASK_TOPOLOGY_TASK_ORDER, "").split(",") if name.strip()]
    if not (together or apart or order):
        return None
    for group in (*together, *apart, order):
        for name in group:
            if name not in roles:
                raise ValueError(f"task {name} do not exist")
            if group.count(name) > 1:
                raise ValueError(f"task {name} is duplicate")
    ranks = {name: len(order) - at for at, name in enumerate(order)}
    return Relations(_pairs(together), _pairs(apart), ranks)


def _groups(text: str) -> list[list[str]]:
    groups = [[name.strip() for name in group.split(",") if name.strip()] for group in text.split(";")]
    return [group for group in groups if group]


def _pairs(groups: list[list[str]]) -> frozenset[frozenset[str]]:
    """Return the pairs of roles. A group of one role stands for its own tasks, and a larger group for each pair of its roles."""
    return frozenset(
        frozenset(pair) for group in groups for pair in (combinations(group, 2) if len(group) > 1 else [tuple(group)])
    )


@dataclass(slots=True)
class Bucket:
    """Tasks of a job that should share a node.

    `waiting`: the requests of the tasks without a node, by UID. `placed`: the number of tasks on each node. `roles`: the number
    of tasks by role.
    """

    index: int
    waiting: dict[str, Ints] = field(default_factory=dict)
    placed: Counter[int] = field(default_factory=Counter)
    roles: Counter[str] = field(default_factory=Counter)

    @property
    def size(self) -> int:
        """The number of all tasks."""
        return len(self.waiting) + sum(self.placed.values())

    def weight(self) -> float:
        """Return the requests of the waiting tasks as one number: milli-cores, mebibytes, other resources in stored units."""
        requests = self.waiting.values()
        return sum((each[CPU] + each[MEMORY] / _MEBI + np.delete(each, [CPU, MEMORY, PODS]).sum() for each in requests), 0.0)


class Buckets:
    """The buckets of one job. `request_of`: returns the request of a task as a vector."""

    def __init__(self, relations: Relations, tasks: Sequence[Task], request_of: Callable[[Task], Ints]) -> None:
        self.relations = relations
        self.largest = 0
        self._of: dict[str, Bucket] = {}
        self._roles_on: dict[int, Counter[str]] = {}
        self._requests = request_of
        found: list[Bucket] = []
        by_node: dict[int, Bucket] = {}
        related = [task for task in tasks if relations.concerns(task.facts.role)]
        for task in sorted(related, key=self._sequence):
            if task.row >= 0:
                bucket = by_node.get(task.row)
                if bucket is None:
                    bucket = by_node[task.row] = self._new(found)
                bucket.placed[task.row] += 1
            else:
                bucket = self._best(found, task.facts.role) or self._new(found)
                bucket.waiting[task.uid] = request_of(task)
            self._of[task.uid] = bucket
            bucket.roles[task.facts.role] += 1
            self.largest = max(self.largest, bucket.size)

    def rank(self, task: Task) -> tuple[int, ...] | None:
        """Return the rank of a task: tasks of large buckets first, then by task order and relations; None without a bucket."""
        bucket = self._of.get(task.uid)
        if bucket is None:
            return None
        role = task.facts.role
        return (-len(bucket.waiting), bucket.index, -self.relations.order.get(role, 0), -self.relations.priority(role))

    def scores(self, task: Task, free: Ints) -> Floats | None:
        """Return how much of its bucket is on each node, or would fit beside `task` into `free`; None without a bucket."""
        bucket = self._of.get(task.uid)
        if bucket is None or not self.largest:
            return None
        nodes = free.shape[1]
        own = self._requests(task)
        scores = np.zeros(nodes)
        scores[list(bucket.placed)] = list(bucket.placed.values())
        for row, roles in self._roles_on.items():
            scores[row] += min(0, self.relations.balance(task.facts.role, roles, only_apart=True))
        others = [request for uid, request in sorted(bucket.waiting.items()) if uid != task.uid]
        sums = own + np.cumsum([np.zeros_like(own), *others], axis=0)  # with 0, 1, … other tasks
        fitting = np.array([(each[:, None] <= free).all(axis=0) for each in sums])
        beside = fitting.shape[0] - 1 - fitting[::-1].argmax(axis=0)
        return np.where(fitting[0], (scores + 1 + beside) / self.largest, 0.0)

    def moved(self, task: Task, row: int, *, is_placed: bool) -> None:
        """Record that `task` was placed on node `row`, or that the placement was undone."""
        bucket = self._of.get(task.uid)
        if bucket is None:
            return
        step = 1 if is_placed else -1
        if is_placed:
            bucket.waiting.pop(task.uid, None)
        else:
            bucket.waiting[task.uid] = self._requests(task)
        bucket.placed[row] += step
        self._roles_on.setdefault(row, Counter())[task.facts.role] += step

    def _sequence(self, task: Task) -> tuple[int, int, int, int, str]:
        role = task.facts.role
        order, priority = -self.relations.order.get(role, 0), -self.relations.priority(role)
        return (task.row < 0, task.row, order, priority, task.facts.name)

    def _best(self, found: Sequence[Bucket], role: str) -> Bucket | None:
        """Return the bucket that a task of `role` prefers to a bucket of its own, None if there is none."""
        wanted = [(self.relations.balance(role, each.roles), each) for each in found]
        most = max((balance for balance, _ in wanted), default=-1)
        if most < 0:
            return None
        return min((each for balance, each in wanted if balance == most), key=lambda each: (each.weight(), each.index))

    @staticmethod
    def _new(found: list[Bucket]) -> Bucket:
        bucket = Bucket(len(found))
        found.append(bucket)
        return bucket


class TaskTopology:
    """The plugin task-topology. Its argument is `task-topology.weight`, by default 1."""

    def __init__(self, arguments: Arguments) -> None:
        self._weight = arguments.integer("task-topology.weight", 1)

    def open(self, session: PluginSession) -> Extensions:
        """Return the extensions of this plugin for one session, none if no waiting job declares relations of its tasks."""
        found = {job.facts.key: _buckets(session, job) for job in session.jobs.values()}
        if not any(found.values()):
            return Extensions()

        def buckets_of(key: str) -> Buckets | None:
            if key not in found:  # a session may add equivalent jobs later
                found[key] = _buckets(session, session.jobs[key]) if key in session.jobs else None
            return found[key]

        def rank(task: Task) -> Rank:
            buckets = buckets_of(task.facts.job)
            place = None if buckets is None else buckets.rank(task)
            return (True,) if place is None else (False, *place)

        def scores(job: Job, task: Task, plan: PlacementPlan, candidates: Bools) -> Floats | None:
            del plan, candidates
            buckets = buckets_of(job.facts.key)
            free = session.columns.idle() + session.columns.releasing
            beside = None if buckets is None else buckets.scores(task, free)
            return None if beside is None else beside * (_BEST * self._weight)

        def moved(move: Move, sign: int) -> None:
            buckets = buckets_of(move.job.facts.key)
            if buckets is not None and move.status is not TaskStatus.RELEASING:
                for task, row in zip(move.tasks, move.rows.tolist(), strict=True):
                    buckets.moved(task, row, is_placed=sign > 0)

        return Extensions(task_order=rank, is_task_order_live=True, batch_node_order=scores, moved=moved)


def _buckets(session: PluginSession, job: Job) -> Buckets | None:
    annotations = job.facts.group.metadata.annotations
    if not job.tally[TaskStatus.PENDING] or not any(annotations.get(key) for key in _ANNOTATIONS):
        return None
    try:
        relations = relations_of(annotations, {task.facts.role for task in job.tasks})
    except ValueError as error:
        session.note(job, "Warning", "TaskTopologyInvalid", f"task topology is ignored: {error} in job {job.facts.key}")
        return None
    if relations is None:
        return None
    return Buckets(relations, job.tasks, lambda task: session.dimensions.vector(task.facts.shape.request))
