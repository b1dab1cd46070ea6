"""What changed since jobs at rest were last looked through: every event says so here, and nowhere else."""

from __future__ import annotations

from copy import copy
from typing import Final

from pyroclast.api import records
from pyroclast.api.records.meta import Record
from pyroclast_scheduler.cache.changes import alike
from pyroclast_scheduler.model.dimensions import Amounts
from pyroclast_scheduler.model.statuses import ALLOCATED
from pyroclast_scheduler.model.tasks import TaskFacts

__all__ = ["Changes"]

_MANY_JOBS: Final = 10_000  # that changed while nobody looked: beyond it anything is taken to have
_MANY_OBJECTS: Final = 100_000  # that changed: beyond it anything is taken to have
_MANY_LABELS: Final = 100_000  # values of labels of pods that changed: beyond it any pod is taken to have


class Changes:
    """Collects changes until they are taken.

    `is_any`: something changed that may alter what a session decides; `is_all`: something on which anything may depend.
    `queues`: those that came, changed, went, or may have more. `used`: those whose jobs have or ask for something else.
    `holders`: jobs of which pods got or lost places, as sums do not show that if nobody looks at them in between. `rows`: nodes
    that may hold more than before. `labels`: of pods that came to nodes, left them, or changed there; `are_neighbours`: one of
    them keeps away from others, or a node came, went, or changed in more than its room. `are_claims_released`: a pod with claims
    left a node; `are_devices_released`: a claim gave its devices back. `objects`: by type and key, those that came, changed, or
    went and of which plugins tell whom they concern. For those that others may go for: `jobs`,
    whose pods on nodes, or whose PodGroups, changed; `is_demand`: what queues have or ask for changed, so that what they may take
    from each other may too; `are_victims`: a queue, node or priority changed, on which all of it may depend.
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
        """Hand over all of it, and begin anew."""
        found = copy(self)
        self.is_any = False
        self._begin()
        return found

    def everything(self) -> None:
        """Something changed on which anything may depend."""
        self.is_all = self.is_any = True

    def queue(self, name: str) -> None:
        """A queue came, changed, or went: all may be another matter for its jobs, and for those of the queues below it."""
        self.queues.add(name)
        self.are_victims = self.is_any = True

    def group(self, key: str) -> None:
        """A PodGroup came, changed, or went."""
        self._job(key)
        self.is_demand = True

    def pod(self, before: TaskFacts | None, task: TaskFacts | None) -> None:
        """A pod came, changed, or went."""
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
        """A pod leaves its node."""
        self.are_claims_released |= task.shape.has_claims

    def gives_up(self, task: TaskFacts, queue: str) -> None:
        """A place that a session kept for a pod, which counted as taken for others, is not kept any more."""
        self.is_any = True
        self.used.add(queue)
        self._neighbour(task)
        self.leaves(task)

    def object(self, old: Record | None, new: Record | None) -> None:
        """An object came, changed, or went, and plugins tell whom it concerns."""
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
    """Whether it is a claim that has devices."""
    return isinstance(record, records.ResourceClaim) and record.status.allocation is not None


def _holds(task: TaskFacts) -> tuple[bool, str, Amounts]:
    """What counts of a pod for its queue."""
    return task.status in ALLOCATED, task.job, task.shape.request
