"""What changed of who is where since the last snapshot, for jobs that wait for others to go."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

import numpy as np

from pyroclast_scheduler.cache.changes import alike
from pyroclast_scheduler.cache.nodes import NodeTable
from pyroclast_scheduler.model.dimensions import Amounts, Ints
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.node_columns import Rows
from pyroclast_scheduler.model.shapes import Shape
from pyroclast_scheduler.model.statuses import ALLOCATED
from pyroclast_scheduler.model.tasks import TaskFacts

__all__ = ["Shifts", "Victims"]

_MANY_ROWS: Final = 200  # beyond it everybody on these nodes is taken to be able to go
_MANY_JOBS: Final = 10_000  # that changed while nobody looked: beyond it anything is taken to have
_MANY_LABELS: Final = 100_000  # values of labels of pods that changed: beyond it any pod is taken to have
_MANY_PODS: Final = 5000  # of jobs that changed: beyond it all nodes are taken to have changed


class Shifts:
    """Collects changes until they are taken. `jobs`: those whose pods on nodes, or whose PodGroups, changed.

    `labels`: of pods that came to nodes, left them, or changed there; `are_keepers`: one of them keeps away from others.
    `is_demand`: what queues have or ask for changed, so that what they may take from each other may too. `is_any`: a queue or a
    node changed, on which all of it may depend.
    """

    def __init__(self) -> None:
        self.jobs: set[str] = set()
        self.labels: set[tuple[str, str]] = set()
        self.are_keepers = False
        self.is_demand = False
        self.is_any = False

    def pod(self, before: TaskFacts | None, task: TaskFacts | None) -> None:
        """A pod came, changed, or went."""
        if before is not None and task is not None and alike(before, task):
            return
        for each in (before, task):
            if each is not None and each.node:
                self._job(each.job)
                self.labels.update(each.pod.metadata.labels.items())
                self.are_keepers |= bool(each.shape.required("podAntiAffinity")) or len(self.labels) > _MANY_LABELS
        self.is_demand |= before is None or task is None or not before.node or _holds(before) != _holds(task)

    def clear(self) -> None:
        """Forget all of it."""
        self.jobs.clear()
        self.labels.clear()
        self.are_keepers = self.is_demand = self.is_any = False

    def group(self, key: str) -> None:
        """A PodGroup came, changed, or went."""
        self._job(key)
        self.is_demand = True

    def _job(self, key: str) -> None:
        self.jobs.add(key)
        if len(self.jobs) > _MANY_JOBS:
            self.jobs.clear()
            self.is_any = True


def _holds(task: TaskFacts) -> tuple[bool, str, Amounts]:
    """What counts of a pod for its queue."""
    return task.status in ALLOCATED, task.job, task.shape.request


class Victims:
    """Rooms that pods could make if they went: on nodes of which something changed.

    Args:
        shifts: what changed, as far as it has been collected now.
        roomier: rows that may hold more than before.
        jobs: all jobs.
        placed: the queues that have anything.
        nodes: as they are when they are asked about.
    """

    def __init__(
        self,
        shifts: Shifts,
        *,
        roomier: Collection[int],
        jobs: Mapping[str, JobFacts],
        placed: AbstractSet[str],
        nodes: NodeTable,
    ) -> None:
        self._is_any = shifts.is_any
        self._is_demand = shifts.is_demand
        self._jobs = jobs
        self._nodes = nodes
        self._rooms: dict[str, tuple[Rows, Ints]] = {}
        self._placed = placed
        changed = [facts for key in shifts.jobs if (facts := jobs.get(key)) is not None]
        self._touched: dict[str, set[int]] = {"": set(roomier)}
        self._is_everywhere = sum(len(each.tasks) for each in changed) > _MANY_PODS
        for each in changed if not self._is_everywhere else ():
            at = {nodes.rows[task.node] for task in each.tasks if task.node in nodes.rows}
            self._touched.setdefault(each.queue, set()).update(at)

    @property
    def rows(self) -> set[int] | None:
        """The nodes of which something changed, or of jobs that have pods there; None if that may be all."""
        return None if self._is_any or self._is_everywhere else set().union(*self._touched.values())

    def may_help(self, queue: str, shapes: Collection[Shape], *, only_own: bool) -> bool:
        """Whether a pod of one of `shapes` might get a place that it could not get before by pods that go for it.

        `queue`: of its job; `only_own`: only pods of that queue may go for it, those of others may not.
        """
        if self._is_any or (self._is_demand and not only_own and self._placed - {queue}):
            return any(self._takes(shape, self._nodes.columns.allocatable) for shape in shapes)
        where = queue if only_own else ""
        if where not in self._rooms:
            self._rooms[where] = self._worked_out(queue, only_own=only_own)
        rows, room = self._rooms[where]
        return bool(len(rows)) and any(self._takes(shape, room) for shape in shapes)

    def _takes(self, shape: Shape, room: Ints) -> bool:
        fits = np.ones(room.shape[1], dtype=np.bool_)
        for name, amount in shape.request.items():
            fits &= room[self._nodes.dimensions.row(name)] >= amount
        return bool(fits.any())

    def _worked_out(self, queue: str, *, only_own: bool) -> tuple[Rows, Ints]:
        """Rows of which something changed, and what would be free there without those that might go."""
        columns, residents = self._nodes.columns, self._nodes.residents
        if self._is_everywhere:
            return np.arange(columns.nodes), columns.allocatable
        touched = self._touched[""] | self._touched.get(queue, set()) if only_own else set().union(*self._touched.values())
        rows = np.fromiter(touched, dtype=np.intp, count=len(touched))
        if len(rows) > _MANY_ROWS:
            return rows, columns.allocatable[:, rows]
        room = columns.future_idle(rows)
        for at, row in enumerate(rows.tolist()):
            for task in residents[row] if row < len(residents) else ():
                owner = self._jobs.get(task.job)
                if owner is not None and task.is_preemptable and (owner.queue == queue or not only_own):
                    for name, amount in task.shape.request.items():
                        room[self._nodes.dimensions.row(name), at] += amount
        return rows, room
