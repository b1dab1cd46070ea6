"""Buckets: tasks of a job that should share a node, as far as the relations of their roles allow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from pyroclast_scheduler.model.dimensions import CPU, MEMORY, PODS, Ints
from pyroclast_scheduler.model.node_columns import Floats
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.plugins.task_topology.relations import Relations

_MEBI = 2**20


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
        total = 0.0
        for request in self.waiting.values():
            others = np.delete(request, [CPU, MEMORY, PODS]).sum()
            total += request[CPU] + request[MEMORY] / _MEBI + others
        return total


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
        """Return how much of its bucket is on each node, or would fit beside `task`; None if the task has no bucket.

        `free`: the free amounts, (dimensions, nodes).
        """
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
