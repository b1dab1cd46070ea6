"""A job: what the scheduler knows of one PodGroup and its pods; and of a queue."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from pyroclast.api import keys, records
from pyroclast_scheduler.model.booleans import parse_bool
from pyroclast_scheduler.model.dimensions import Amounts, Dimensions, Ints, amounts_of, grown
from pyroclast_scheduler.model.statuses import ALLOCATED, TaskStatus
from pyroclast_scheduler.model.tallies import Tally
from pyroclast_scheduler.model.tasks import TaskFacts, seconds_of

__all__ = ["JobFacts", "QueueFacts"]


class JobFacts:
    """One PodGroup with its tasks at the time of a snapshot; never changed afterwards, so that sessions share it.

    Raises (when made):
        ValueError: a quantity of the PodGroup makes no sense.
    """

    def __init__(self, group: records.PodGroup, tasks: Mapping[str, TaskFacts], *, priority: int, queue: str) -> None:
        spec, meta = group.spec, group.metadata
        self.group = group
        self.key = str(group.key)
        self.uid = meta.uid
        self.namespace = meta.namespace
        self.name = meta.name
        self.queue = queue
        self.priority = priority
        self.created = seconds_of(meta.creation_timestamp)
        self.min_available = spec.min_member
        self.role_minimum = spec.min_task_member
        self.min_resources: Amounts | None = None if spec.min_resources is None else amounts_of(spec.min_resources)
        self.tasks = tuple(tasks.values())
        self.tally = Tally()
        allocated: dict[str, int] = {}
        pending: dict[str, int] = {}
        for task in self.tasks:
            self.tally.add(task.role, task.status, is_best_effort=task.shape.is_best_effort)
            sums = allocated if task.status in ALLOCATED else pending if task.status is TaskStatus.PENDING else None
            if sums is not None:
                for name, amount in task.shape.request.items():
                    sums[name] = sums.get(name, 0) + amount
        self._allocated: Amounts = allocated
        self._pending: Amounts = pending
        self._vectors: dict[str, Ints] = {}

    @cached_property
    def is_preemptable(self) -> bool:
        """Whether the PodGroup offers its pods for preemption."""
        meta = self.group.metadata
        text = meta.annotations.get(keys.PREEMPTABLE, meta.labels.get(keys.PREEMPTABLE, ""))
        return bool(parse_bool(text))

    @cached_property
    def gated(self) -> Amounts:
        """What the pods ask for that wait behind a gate, except those that wait for the queue's own gate alone."""
        total: dict[str, int] = {}
        for task in self.tasks:
            if task.gates and task.gates != (keys.QUEUE_ALLOCATION_GATE,):
                for name, amount in task.shape.request.items():
                    total[name] = total.get(name, 0) + amount
        return total

    @cached_property
    def releasing_on_node(self) -> int:
        """Tasks that are going but still sit on a node."""
        return sum(task.status is TaskStatus.RELEASING and bool(task.node) for task in self.tasks)

    def allocated(self, dimensions: Dimensions) -> Ints:
        """The sum of the requests of tasks that have their place. Not to be changed."""
        return self._vector("allocated", self._allocated, dimensions)

    def pending(self, dimensions: Dimensions) -> Ints:
        """The sum of the requests of tasks that wait for a place. Not to be changed."""
        return self._vector("pending", self._pending, dimensions)

    def minimum(self, dimensions: Dimensions) -> Ints | None:
        """What the PodGroup says it needs at least; None if it says nothing. Not to be changed."""
        return None if self.min_resources is None else self._vector("minimum", self.min_resources, dimensions)

    def behind_gates(self, dimensions: Dimensions) -> Ints:
        """What the pods ask for that wait behind gates of others. Not to be changed."""
        return self._vector("gated", self.gated, dimensions)

    def _vector(self, name: str, amounts: Amounts, dimensions: Dimensions) -> Ints:
        vector = self._vectors.get(name)
        if vector is None or len(vector) > len(dimensions):
            vector = dimensions.vector(amounts)
        self._vectors[name] = vector = grown(vector, len(dimensions))
        return vector


class QueueFacts:
    """One queue.

    Raises (when made):
        ValueError: a quantity of the queue makes no sense.
    """

    def __init__(self, queue: records.Queue) -> None:
        spec = queue.spec
        self.record = queue
        self.name = queue.metadata.name
        self.uid = queue.metadata.uid
        self.created = seconds_of(queue.metadata.creation_timestamp)
        self.weight = spec.weight
        self.priority = spec.priority
        self.parent = spec.parent
        self.is_reclaimable = spec.reclaimable is not False
        self.is_open = queue.status.state in {None, "", "Open"}
        self.capability: Amounts | None = None if spec.capability is None else amounts_of(spec.capability)
        self.guarantee: Amounts = amounts_of(spec.guarantee.resource)
        self.deserved: Amounts | None = None if spec.deserved is None else amounts_of(spec.deserved)
