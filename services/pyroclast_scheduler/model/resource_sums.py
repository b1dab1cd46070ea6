"""Sums over tasks and jobs, kept by increments: what a job has and wants, and what the jobs of a queue do together.

Amounts are whole numbers of any size, so that no sum overflows and none drifts; a session works with them as floats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from pyroclast.api import keys
from pyroclast_scheduler.model.dimensions import Amounts, Dimensions
from pyroclast_scheduler.model.node_columns import Floats
from pyroclast_scheduler.model.statuses import ALLOCATED, TaskStatus
from pyroclast_scheduler.model.task_counts import Tally
from pyroclast_scheduler.model.tasks import TaskFacts

__all__ = ["Contribution", "QueueSums", "QueueTotals", "TaskSums"]


@dataclass(slots=True)
class TaskSums:
    """What the tasks of a job are together.

    `allocated`: requests of tasks that have their place; `pending`: of tasks that wait for one; `gated`: of tasks that wait
    behind a gate, except those that wait for the queue's own gate alone. `releasing`: how many are going but still sit on a node;
    `let_in`: how many went through the queue's own gate and have no place yet.
    """

    tally: Tally = field(default_factory=Tally)
    allocated: dict[str, int] = field(default_factory=dict)
    pending: dict[str, int] = field(default_factory=dict)
    gated: dict[str, int] = field(default_factory=dict)
    releasing: int = 0
    let_in: int = 0

    def add(self, task: TaskFacts, sign: int = 1) -> None:
        """Count `task` in (1) or out (−1), as it is."""
        self.tally.add(task.role, task.status, is_best_effort=task.shape.is_best_effort, count=sign)
        if task.status in ALLOCATED:
            _add(self.allocated, task.shape.request, sign)
        elif task.status is TaskStatus.PENDING:
            _add(self.pending, task.shape.request, sign)
        elif task.status is TaskStatus.RELEASING and task.node:
            self.releasing += sign
        self.let_in += sign * task.is_let_in
        if task.gates and task.gates != (keys.QUEUE_ALLOCATION_GATE,):
            _add(self.gated, task.shape.request, sign)

    def copy(self) -> TaskSums:
        """An independent copy."""
        return TaskSums(
            self.tally.copy(), self.allocated.copy(), self.pending.copy(), self.gated.copy(), self.releasing, self.let_in
        )


class Contribution(msgspec.Struct, frozen=True, gc=False):
    """What one job adds to the sums of its queue, see `QueueSums`."""

    queue: str
    allocated: Amounts
    pending: Amounts
    elastic: Amounts
    inqueue: Amounts
    inqueue_whole: Amounts

    @property
    def parts(self) -> tuple[Amounts, ...]:
        """The sums in the order of `QueueSums`."""
        return self.allocated, self.pending, self.elastic, self.inqueue, self.inqueue_whole


@dataclass(frozen=True, slots=True)
class QueueSums:
    """What the jobs of one queue had and wanted when a session began; vectors over all dimensions, not to be changed.

    What no node has is not in them.

    `allocated`: of tasks that have their place; `pending`: of tasks that wait for one; `elastic`: what jobs have beyond their
    minimum. `inqueue`: the minimum of admitted jobs, less what they have; `inqueue_whole`: the same without taking off what jobs
    in phase Inqueue have. `jobs`: how many there are.
    """

    allocated: Floats
    pending: Floats
    elastic: Floats
    inqueue: Floats
    inqueue_whole: Floats
    jobs: int = 0


class QueueTotals:
    """The same while jobs come, change and go."""

    __slots__ = ("jobs", "parts")

    def __init__(self) -> None:
        self.jobs = 0
        self.parts: tuple[dict[str, int], ...] = ({}, {}, {}, {}, {})

    def add(self, contribution: Contribution, sign: int = 1) -> None:
        """Count a job in (1) or out (−1)."""
        self.jobs += sign
        for total, part in zip(self.parts, contribution.parts, strict=True):
            _add(total, part, sign)

    @property
    def allocated(self) -> Amounts:
        """What they have. Not to be changed."""
        return self.parts[0]

    def vectors(self, dimensions: Dimensions) -> QueueSums:
        """As a session wants them."""
        allocated, pending, elastic, inqueue, whole = (dimensions.sums(part) for part in self.parts)
        return QueueSums(allocated, pending, elastic, inqueue, whole, self.jobs)


def _add(total: dict[str, int], amounts: Mapping[str, int], sign: int) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + sign * amount
        if not total[name]:
            del total[name]  # else what somebody once asked for would stay for ever
