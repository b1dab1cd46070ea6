"""Sums and counts over the tasks of jobs and over the jobs of queues, updated by increments.

Amounts are integers of any size, so that no sum overflows or drifts. Sessions convert the sums to floats. A tally counts tasks by
status, from which the gang conditions follow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final

import msgspec

from pyroclast.api import keys
from pyroclast_scheduler.model.dimensions import Amounts, Dimensions
from pyroclast_scheduler.model.node_columns import Floats
from pyroclast_scheduler.model.tasks import ALLOCATED, READY, VALID, TaskFacts, TaskStatus

_IDLE: Final = len(TaskStatus)  # position of the count of pending tasks without requests
_WIDTH: Final = _IDLE + 1
_READY: Final[Callable[[Sequence[int]], tuple[int, ...]]] = itemgetter(*sorted(READY))
_VALID: Final[Callable[[Sequence[int]], tuple[int, ...]]] = itemgetter(*sorted(VALID))


class Tally:
    """The number of tasks in each status. `roles`: the same counts for each role."""

    __slots__ = ("counts", "roles")

    def __init__(self) -> None:
        self.counts = [0] * _WIDTH
        self.roles: dict[str, list[int]] = {}

    def copy(self) -> Tally:
        """Return an independent copy."""
        other = Tally()
        other.counts = self.counts.copy()
        other.roles = {role: counts.copy() for role, counts in self.roles.items()}
        return other

    def add(self, role: str, status: TaskStatus, *, is_best_effort: bool, count: int = 1) -> None:
        """Add `count` tasks of `role` in `status`; a negative count subtracts tasks."""
        counts = self.roles.get(role)
        if counts is None:
            counts = self.roles[role] = [0] * _WIDTH
        for row in (self.counts, counts):
            row[status] += count
            if is_best_effort and status is TaskStatus.PENDING:
                row[_IDLE] += count

    def __getitem__(self, status: TaskStatus) -> int:
        return self.counts[status]

    @property
    def total(self) -> int:
        """The number of all tasks, in any status."""
        return sum(self.counts[:_IDLE])

    @property
    def ready(self) -> int:
        """The number of tasks that are allocated, binding, bound, running or succeeded."""
        return sum(_READY(self.counts))

    @property
    def pending_best_effort(self) -> int:
        """The number of pending tasks without requests. A gang does not wait for these tasks."""
        return self.counts[_IDLE]

    @property
    def valid(self) -> int:
        """The number of tasks that can still count towards the minimum of the gang."""
        return sum(_VALID(self.counts))

    @property
    def scheduled(self) -> int:
        """The number of tasks that have or had a node: running, bound, succeeded or failed."""
        counts = self.counts
        return counts[TaskStatus.RUNNING] + counts[TaskStatus.BOUND] + self.finished

    @property
    def finished(self) -> int:
        """The number of tasks that succeeded or failed."""
        return self.counts[TaskStatus.SUCCEEDED] + self.counts[TaskStatus.FAILED]

    def missing(self, minimum: int, roles: Mapping[str, int]) -> int:
        """Return how many more tasks must be placed until `minimum` and the role minimums are satisfied, 0 if they are.

        Role minimums whose sum exceeds `minimum` are ignored.
        """
        lacking = max(0, minimum - self.ready - self.pending_best_effort)
        if roles and minimum >= sum(roles.values()):
            lacking = max(lacking, sum(max(0, least - self.role_ready(role)) for role, least in roles.items()))
        return lacking

    def role_ready(self, role: str, *, pipelined: bool = False) -> int:
        """Return the number of tasks of `role` that are ready or have no requests. `pipelined`: pipelined tasks count too."""
        counts = self.roles.get(role)
        if counts is None:
            return 0
        ready = int(sum(_READY(counts))) + counts[_IDLE]
        return ready + counts[TaskStatus.PIPELINED] if pipelined else ready

    def role_valid(self, role: str) -> int:
        """Return the number of tasks of `role` that can still count towards the minimum of the gang."""
        counts = self.roles.get(role)
        return 0 if counts is None else sum(_VALID(counts))

    def histogram(self) -> list[str]:
        """Return `<n> <Status>` for each status that occurs."""
        return [f"{self.counts[status]} {status.label}" for status in TaskStatus if self.counts[status]]


@dataclass(slots=True)
class TaskSums:
    """Sums over the tasks of a job.

    Attributes:
        tally: the number of tasks in each status.
        allocated: the requests of allocated tasks.
        pending: the requests of pending tasks.
        gated: the requests of tasks behind scheduling gates, without tasks that have the queue's own gate only.
        releasing: the number of tasks that are being deleted and still occupy their node.
        let_in: the number of pending tasks whose gate the queue has removed.
    """

    tally: Tally = field(default_factory=Tally)
    allocated: dict[str, int] = field(default_factory=dict)
    pending: dict[str, int] = field(default_factory=dict)
    gated: dict[str, int] = field(default_factory=dict)
    releasing: int = 0
    let_in: int = 0

    def add(self, task: TaskFacts, sign: int = 1) -> None:
        """Add the present state of `task` to the sums (`sign` 1) or subtract it (−1)."""
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
        """Return an independent copy."""
        return TaskSums(
            self.tally.copy(), self.allocated.copy(), self.pending.copy(), self.gated.copy(), self.releasing, self.let_in
        )


class Contribution(msgspec.Struct, frozen=True, gc=False):
    """The amounts that one job adds to the sums of its queue, see `QueueSums`."""

    queue: str
    allocated: Amounts
    pending: Amounts
    elastic: Amounts
    inqueue: Amounts
    inqueue_whole: Amounts

    @property
    def parts(self) -> tuple[Amounts, ...]:
        """The amounts in the order of the vectors of `QueueSums`."""
        return self.allocated, self.pending, self.elastic, self.inqueue, self.inqueue_whole


@dataclass(frozen=True, slots=True)
class QueueSums:
    """Sums over the jobs of one queue at the start of a session, as vectors over all dimensions.

    Callers must not change the vectors.

    Resources that have no row of their own are left out.

    Attributes:
        allocated: the requests of allocated tasks.
        pending: the requests of pending tasks, and of lost members of started gangs without a replacement.
        elastic: the amounts that jobs have allocated beyond their minimum resources.
        inqueue: the minimum resources of enqueued jobs, less the amounts that these jobs have allocated.
        inqueue_whole: the same, but nothing is subtracted for jobs in phase Inqueue.
        jobs: the number of jobs.
    """

    allocated: Floats
    pending: Floats
    elastic: Floats
    inqueue: Floats
    inqueue_whole: Floats
    jobs: int = 0


class QueueTotals:
    """The sums of `QueueSums`, updated whenever a job is added, changed or removed."""

    __slots__ = ("jobs", "parts")

    def __init__(self) -> None:
        self.jobs = 0
        self.parts: tuple[dict[str, int], ...] = ({}, {}, {}, {}, {})

    def add(self, contribution: Contribution, sign: int = 1) -> None:
        """Add a job to the sums (`sign` 1) or subtract it (−1)."""
        self.jobs += sign
        for total, part in zip(self.parts, contribution.parts, strict=True):
            _add(total, part, sign)

    @property
    def allocated(self) -> Amounts:
        """The allocated amounts. Callers must not change them."""
        return self.parts[0]

    def vectors(self, dimensions: Dimensions) -> QueueSums:
        """Return the sums as vectors for a session."""
        allocated, pending, elastic, inqueue, whole = (dimensions.sums(part) for part in self.parts)
        return QueueSums(allocated, pending, elastic, inqueue, whole, self.jobs)


def _add(total: dict[str, int], amounts: Mapping[str, int], sign: int) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + sign * amount
        if not total[name]:
            del total[name]  # otherwise resources that are no longer requested would accumulate
