"""The changes since the last search for jobs to retry. Every watch event is recorded here, and in no other place."""

from __future__ import annotations

from copy import copy
from typing import Final

from pyroclast.api import records
from pyroclast.api.records.meta import Record
from pyroclast_scheduler.cache.changes import alike
from pyroclast_scheduler.model.dimensions import Amounts
from pyroclast_scheduler.model.statuses import ALLOCATED
from pyroclast_scheduler.model.tasks import TaskFacts

_MANY_JOBS: Final = 10_000  # changed jobs since the last search; above this number, all jobs count as changed
_MANY_OBJECTS: Final = 100_000  # changed objects; above this number, everything counts as changed
_MANY_LABELS: Final = 100_000  # label values of changed pods; above this number, all pods count as changed


class Changes:
    """Collects changes until `taken` is called.

    Attributes:
        is_any: a change that may alter the decisions of a session.
        is_all: a change that may affect any job.
        queues: queues that were created, changed or deleted, or that may use more.
        used: queues whose jobs have other allocated or requested amounts.
        holders: jobs whose pods were placed or removed. The sums do not show this if both happen between two searches.
        rows: nodes that may hold more than before.
        labels: the labels of pods that were placed on nodes, left nodes, or changed on nodes.
        are_neighbours: such a pod has anti-affinity terms, or a node was created, deleted, or changed in more than its room.
        are_claims_released: a pod with claims left a node.
        are_devices_released: the allocation of a ResourceClaim ended.
        objects: changed objects, by type and key, whose jobs are found by the trigger ObjectChange.
        jobs: jobs whose possible victims changed: pods on nodes, or the PodGroup.
        is_demand: amounts of queues changed, so that the amounts which queues may reclaim from each other may have changed.
        are_victims: a queue, node or priority changed, so that all possible victims may have changed.
    """

    def __init__(self) -> None:
        self.is_any = True
        self._begin()

    def _begin(self) -> None:
        self.is_all = self.are_neighbours = self.is_demand = self.are_victims = False
        self.are_claims_released = self.are_devices_released = False
        self.objects: set[tuple[type[Record], str]] = set()
        self.queues: set[str] = set()
        self.used: set[str] = set()
        self.holders: set[str] = set()
        self.rows: set[int] = set()
        self.labels: set[tuple[str, str]] = set()
        self.jobs: set[str] = set()

    def taken(self) -> Changes:
        """Return all changes and start again with none."""
        found = copy(self)
        self.is_any = False
        self._begin()
        return found

    def everything(self) -> None:
        """Record a change that may affect any job."""
        self.is_all = self.is_any = True

    def queue(self, name: str) -> None:
        """Record that a queue was created, changed or deleted, which affects the jobs of the queue and its descendants."""
        self.queues.add(name)
        self.are_victims = self.is_any = True

    def group(self, key: str) -> None:
        """Record that a PodGroup was created, changed or deleted."""
        self._job(key)
        self.is_demand = True

    def pod(self, before: TaskFacts | None, task: TaskFacts | None) -> None:
        """Record that a pod was created, changed or deleted."""
        if before is not None and task is not None and alike(before, task):
            return
        holds_other = before is None or task is None or not before.node or _holds(before) != _holds(task)
        self.is_demand |= holds_other
        for each in (before, task):
            if each is not None and each.node:
                self._job(each.job)
                self._neighbour(each)
                if holds_other:
                    self.holders.add(each.job)

    def leaves(self, task: TaskFacts) -> None:
        """Record that a pod leaves its node."""
        self.are_claims_released |= task.shape.has_claims

    def gives_up(self, task: TaskFacts, queue: str) -> None:
        """Record that room which a session had reserved for a pod is free again."""
        self.is_any = True
        self.used.add(queue)
        self._neighbour(task)
        self.leaves(task)

    def object(self, old: Record | None, new: Record | None) -> None:
        """Record that an object was created, changed or deleted whose jobs are found by the trigger ObjectChange."""
        self.is_any = True
        self.are_devices_released |= _has_devices(old) and not _has_devices(new)
        self.objects.update((type(each), str(each.key)) for each in (old, new) if each is not None)
        if len(self.objects) > _MANY_OBJECTS:
            self.everything()

    def _neighbour(self, task: TaskFacts) -> None:
        self.labels.update(task.pod.metadata.labels.items())
        self.are_neighbours |= bool(task.shape.required("podAntiAffinity"))
        if len(self.labels) > _MANY_LABELS:
            self.labels.clear()
            self.are_neighbours = True

    def _job(self, key: str) -> None:
        self.jobs.add(key)
        if len(self.jobs) > _MANY_JOBS:
            self.jobs.clear()
            self.holders.clear()
            self.are_victims = True


def _has_devices(record: Record | None) -> bool:
    """Whether the object is a ResourceClaim with an allocation."""
    return isinstance(record, records.ResourceClaim) and record.status.allocation is not None


def _holds(task: TaskFacts) -> tuple[bool, str, Amounts]:
    """Return the properties of a pod that count for its queue."""
    return task.status in ALLOCATED, task.job, task.shape.request
