"""A statement: placements and evictions already applied to the session (its ledger), with an undo log; all of it is kept or none.

Undoing costs what was touched: the log holds the rows and counts of each step, and is replayed backwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Columns, Floats, Rows
from pyroclast_scheduler.model.shapes import Shape
from pyroclast_scheduler.model.statuses import TaskStatus
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.session.whole_units import goes_whole, unit_of

if TYPE_CHECKING:
    from pyroclast_scheduler.placement.plans import PlacementPlan

_ONE: Final = np.ones(1, dtype=np.int64)
_FEW: Final = 64  # rows that are counted faster one by one than as an array

__all__ = ["Move", "Statement"]


@dataclass(slots=True)
class Move:
    """One step: tasks of one job and one shape go to `status`, each on its row. `nodes` and `counts` say how many where.

    `before`: the status that each task had, the same for all. `amount`: what they ask for together; `change`: what quotas count
    of it, where places taken or promised are more, evictions less. Neither is to be changed.
    """

    job: Job
    plan: PlacementPlan
    tasks: Sequence[Task]
    rows: Rows
    status: TaskStatus
    before: Sequence[TaskStatus]
    nodes: Rows
    counts: Ints
    reason: str = ""
    amount: Floats = field(init=False)
    change: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.amount = self.plan.request.astype(np.float64) * len(self.tasks)
        self.change = -self.amount if self.status is TaskStatus.RELEASING else self.amount


class Ledger(Protocol):
    """What a statement writes to: a session."""

    columns: Columns

    def plan(self, shape: Shape) -> PlacementPlan:
        """What a pod of `shape` asks for."""

    def moved(self, move: Move, sign: int) -> None:
        """Keep what depends on placements current: `move` was made (1) or undone (−1)."""

    def objection(self, move: Move) -> str | None:
        """Why the places that `move` gave are to be taken back, None if they are not."""

    def commit(self, moves: Sequence[Move]) -> None:
        """Let placements and evictions out."""


@dataclass(slots=True)
class Statement:
    """Steps in order. Nothing leaves the ledger before `commit`."""

    ledger: Ledger
    moves: list[Move] = field(default_factory=list)

    def allocate(self, job: Job, plan: PlacementPlan, tasks: Sequence[Task], rows: Rows) -> bool:
        """Give each of `tasks` its node of `rows`; whether no plugin objects, else nothing is done."""
        return self._place(job, plan, tasks, rows, TaskStatus.ALLOCATED)

    def pipeline(self, job: Job, plan: PlacementPlan, tasks: Sequence[Task], rows: Rows, *, evicted_others: bool = False) -> bool:
        """Promise each of `tasks` its node of `rows`, for when there is room; whether no plugin objects, else nothing is done."""
        for task in tasks:
            task.evicted_others = evicted_others
        return self._place(job, plan, tasks, rows, TaskStatus.PIPELINED)

    def evict(self, job: Job, plan: PlacementPlan, task: Task, reason: str) -> None:
        """Take `task` off its node, and with it the rest of a gang that goes whole."""
        if task.status is TaskStatus.RELEASING and goes_whole(job, task):
            return  # it went with another pod of its gang
        for each in unit_of(job, task):
            own = plan if each is task else self.ledger.plan(each.facts.shape)
            self._do(job, own, [each], np.array([each.row], dtype=np.intp), TaskStatus.RELEASING, reason=reason)

    def merge(self, other: Statement) -> None:
        """Take over the steps of `other`, which is empty afterwards."""
        self.moves += other.moves
        other.moves = []

    def commit(self) -> None:
        """Keep the steps: evictions and binds leave the session now."""
        for move in self.moves:
            for task in move.tasks:
                task.last = None
        self.ledger.commit(self.moves)
        self.moves = []

    def discard(self) -> None:
        """Undo the steps, last first."""
        while self.moves:
            move = self.moves.pop()
            for task, row in zip(move.tasks, move.rows, strict=True):
                task.last = (move.status, int(row))
            undo(self.ledger, move)

    def _place(self, job: Job, plan: PlacementPlan, tasks: Sequence[Task], rows: Rows, status: TaskStatus) -> bool:
        self._do(job, plan, tasks, rows, status)
        why = self.ledger.objection(self.moves[-1])
        if why is None:
            return True
        undo(self.ledger, self.moves.pop())
        job.objection = why
        return False

    def _do(
        self, job: Job, plan: PlacementPlan, tasks: Sequence[Task], rows: Rows, status: TaskStatus, *, reason: str = ""
    ) -> None:
        listed = rows.tolist()
        nodes, counts = _counted(rows, listed)
        before = [task.status for task in tasks]
        move = Move(job, plan, tasks, rows, status, before, nodes, counts, reason)
        job.move(tasks, status, listed)
        _count(self.ledger.columns, move, 1)
        self.ledger.moved(move, 1)
        self.moves.append(move)


def _counted(rows: Rows, listed: list[int]) -> tuple[Rows, Ints]:
    """Each of `rows` once, and how often it occurs; `listed`: the same rows."""
    if len(listed) == 1:
        return rows, _ONE
    if len(listed) > _FEW:
        return np.unique(rows, return_counts=True)
    found = Counter(listed)
    return np.array(list(found), dtype=np.intp), np.array(list(found.values()), dtype=np.int64)


def undo(ledger: Ledger, move: Move) -> None:
    """Take `move` back, which must be the last one not undone of its tasks."""
    _count(ledger.columns, move, -1)
    before = move.before[0]
    move.job.move(move.tasks, before, [-1 if before is TaskStatus.PENDING else row for row in move.rows.tolist()])
    for task in move.tasks:
        task.evicted_others = False
    ledger.moved(move, -1)


def _count(columns: Columns, move: Move, sign: int) -> None:
    nodes: Rows | int = move.nodes
    counts: Ints | int = move.counts * sign
    amount, non_zero = move.plan.request, move.plan.non_zero
    if len(move.nodes) == 1:  # one column: a list of positions costs five times as much, and gives the GIL up each time
        nodes, counts = int(move.nodes[0]), sign * len(move.tasks)
        amount, non_zero = amount * counts, non_zero * counts
    else:
        amount, non_zero = amount[:, None] * counts, non_zero[:, None] * counts
    columns.has_shifts |= move.status is not TaskStatus.ALLOCATED
    match move.status:
        case TaskStatus.ALLOCATED:
            columns.used[:, nodes] += amount
            columns.non_zero[:, nodes] += non_zero
            columns.pod_count[nodes] += counts
        case TaskStatus.PIPELINED:
            columns.pipelined[:, nodes] += amount
            columns.pod_count[nodes] += counts
        case TaskStatus.RELEASING:
            columns.releasing[:, nodes] += amount
            columns.pod_count[nodes] -= counts
        case _:
            raise AssertionError(f"a statement does not move tasks to {move.status.label}")
