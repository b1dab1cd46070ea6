"""A statement: placements and evictions that are applied to the session and that are committed or undone together.

The log has the rows and counts of each move and is undone backwards, so that an undo costs what was touched. `Moves` tells
plugins and searches which of their results are outdated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from pyroclast.api import records
from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Columns, Floats, Rows
from pyroclast_scheduler.model.snapshot import Snapshot
from pyroclast_scheduler.model.tasks import ALLOCATED, EVICTABLE, Task, TaskStatus
from pyroclast_scheduler.model.term_counts import TermCounts

Candidate = tuple[Job, Task]
_Unit = tuple[str, str]
_WHOLE: Final = "*"


def goes_whole(job: Job, task: Task) -> bool:
    """Whether other pods are evicted together with `task`."""
    return bool(_name(job, task))


def unit_of(job: Job, task: Task) -> list[Task]:
    """Return the pods that are evicted together with `task`, `task` first: itself unless its gang or part goes as a whole."""
    if not (name := _name(job, task)):
        return [task]
    return [task, *(each for each in _members(job, name) if each is not task and each.status in EVICTABLE)]


def agreed_whole(
    candidates: Sequence[Candidate], vote: Callable[[Sequence[Candidate]], list[Candidate]], preemptor: Job
) -> list[Candidate]:
    """Return what `vote` selects; of a unit all or nothing, and nothing of the preemptor or while a pod is being bound."""
    owners = {unit: owner for owner, task in candidates if (unit := _unit(owner, task)) is not None}
    if not owners:
        return vote(candidates)
    members = {unit: _members(owner, unit[1]) for unit, owner in owners.items() if owner is not preemptor}
    present = {unit: [task for task in tasks if task.status in EVICTABLE] for unit, tasks in members.items() if _may_go(tasks)}
    asked = [pair for pair in candidates if (unit := _unit(*pair)) is None or unit in present]
    known = {task.uid for _, task in asked}
    others = [(owners[unit], task) for unit, tasks in present.items() for task in tasks if task.uid not in known]
    chosen = vote([*asked, *others])
    agreed = {task.uid for _, task in chosen}
    broken = {unit for unit, tasks in present.items() if any(task.uid not in agreed for task in tasks)}
    return [pair for pair in chosen if pair[1].uid in known and _unit(*pair) not in broken]


def _unit(job: Job, task: Task) -> _Unit | None:
    return (job.facts.key, name) if (name := _name(job, task)) else None


def _name(job: Job, task: Task) -> str:
    """Return the name of the largest part evicted as a whole that contains `task`; empty if there is none."""
    spec = job.facts.group.spec
    if spec.tree is None:
        return _WHOLE if spec.evicts_whole else ""
    return next((part.name for part in job.path(task.facts.part) if part.evicts_whole), "")


def _members(job: Job, name: str) -> list[Task]:
    return [task for task in job.tasks if _name(job, task) == name]


def _may_go(tasks: Sequence[Task]) -> bool:
    """Whether every allocated task of `tasks` could be evicted now."""
    return all(task.status in EVICTABLE and task.facts.is_preemptable for task in tasks if task.status in ALLOCATED)


if TYPE_CHECKING:
    from pyroclast_scheduler.placement.plans import PlacementPlan
    from pyroclast_scheduler.session.session import Session

_ONE: Final = np.ones(1, dtype=np.int64)
_FEW: Final = 64  # up to this number, counting rows one by one is faster than as an array


@dataclass(slots=True)
class Move:
    """One step of a statement: tasks of one job and one shape change to `status`, each on its row.

    Attributes:
        before: the status of each task before the move, the same for all.
        nodes, counts: each row of `rows` once, and the number of tasks on it.
        reason: the reason of an eviction.
        amount: the sum of the requests; not to be changed.
        change: the sum that quotas count, negative for evictions; not to be changed.
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


@dataclass(slots=True)
class Statement:
    """A group of placements and evictions, in order. Only `commit` sends them to the cluster."""

    session: Session
    moves: list[Move] = field(default_factory=list)

    def allocate(self, job: Job, plan: PlacementPlan, tasks: Sequence[Task], rows: Rows) -> bool:
        """Allocate each of `tasks` to its node of `rows`. Return False, without any change, if a plugin objects."""
        return self._place(job, plan, tasks, rows, TaskStatus.ALLOCATED)

    def pipeline(self, job: Job, plan: PlacementPlan, tasks: Sequence[Task], rows: Rows, *, evicted_others: bool = False) -> bool:
        """Pipeline each of `tasks` to its node of `rows`, for the time when there is room; False if a plugin objects."""
        for task in tasks:
            task.evicted_others = evicted_others
        return self._place(job, plan, tasks, rows, TaskStatus.PIPELINED)

    def evict(self, job: Job, plan: PlacementPlan, task: Task, reason: str) -> None:
        """Evict `task`, together with all pods of its gang or part if that is evicted as a whole."""
        if task.status is TaskStatus.RELEASING and goes_whole(job, task):
            return  # evicted together with another pod of its gang
        for each in unit_of(job, task):
            own = plan if each is task else self.session.plan(each.facts.shape)
            self._do(job, own, [each], np.array([each.row], dtype=np.intp), TaskStatus.RELEASING, reason=reason)

    def merge(self, other: Statement) -> None:
        """Append the moves of `other`, which is empty afterwards."""
        self.moves += other.moves
        other.moves = []

    def commit(self) -> None:
        """Send the evictions and binds to the cluster."""
        for move in self.moves:
            for task in move.tasks:
                task.last = None
        self.session.commit(self.moves)
        self.moves = []

    def discard(self) -> None:
        """Undo all moves, last first."""
        while self.moves:
            move = self.moves.pop()
            for task, row in zip(move.tasks, move.rows, strict=True):
                task.last = (move.status, int(row))
            undo(self.session, move)

    def _place(self, job: Job, plan: PlacementPlan, tasks: Sequence[Task], rows: Rows, status: TaskStatus) -> bool:
        self._do(job, plan, tasks, rows, status)
        why = self.session.objection(self.moves[-1])
        if why is None:
            return True
        undo(self.session, self.moves.pop())
        job.objection = why
        return False

    def _do(
        self, job: Job, plan: PlacementPlan, tasks: Sequence[Task], rows: Rows, status: TaskStatus, *, reason: str = ""
    ) -> None:
        listed = rows.tolist()
        nodes, counts = _counted(rows, listed)
        move = Move(job, plan, tasks, rows, status, [task.status for task in tasks], nodes, counts, reason)
        job.move(tasks, status, listed)
        _count(self.session.columns, move, 1)
        self.session.moved(move, 1)
        self.moves.append(move)


def _counted(rows: Rows, listed: list[int]) -> tuple[Rows, Ints]:
    """Return each of `rows`, which are also in `listed`, once with its number of occurrences."""
    if len(listed) == 1:
        return rows, _ONE
    if len(listed) > _FEW:
        return np.unique(rows, return_counts=True)
    found = Counter(listed)
    return np.array(list(found), dtype=np.intp), np.array(list(found.values()), dtype=np.int64)


def undo(session: Session, move: Move) -> None:
    """Undo `move`, which must be the last move of its tasks that is not undone."""
    _count(session.columns, move, -1)
    before = move.before[0]
    move.job.move(move.tasks, before, [-1 if before is TaskStatus.PENDING else row for row in move.rows.tolist()])
    for task in move.tasks:
        task.evicted_others = False
    session.moved(move, -1)


def _count(columns: Columns, move: Move, sign: int) -> None:
    nodes: Rows | int = move.nodes
    counts: Ints | int = move.counts * sign
    amount, non_zero = move.plan.request, move.plan.non_zero
    if len(move.nodes) == 1:  # one column: indexing by an array costs five times as much and releases the GIL each time
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


class Moves:
    """The moves of a session, in order.

    `log`: the node rows of each move, undone moves included. `jobs`: the job of each of these moves. `state`: a number of the
    present placements, the same again after later moves have been undone. `queue_changes`: the change of the allocated amounts by
    queue.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.log: list[Rows] = []
        self.jobs: list[Job] = []
        self.state = 0
        self._made: list[tuple[Move, int]] = []  # with the state before the move
        self.queue_changes: dict[str, Floats] = {}
        self._snapshot = snapshot
        self._term_counts: TermCounts | None = None
        self._uncounted: list[tuple[Move, int]] = []  # moves from before the first use of `term_counts`

    def add(self, move: Move, sign: int) -> None:
        """Record that `move` was made (1) or undone (−1)."""
        self.log.append(move.nodes)
        self.jobs.append(move.job)
        if sign > 0:
            self._made.append((move, self.state))
            self.state = len(self.log)
        elif self._made and self._made[-1][0] is move:
            self.state = self._made.pop()[1]
        else:
            self._made.clear()
            self.state = len(self.log)
        if move.status is TaskStatus.ALLOCATED and sign > 0:
            move.plan.ahead.placed(move.rows, len(self.log))
        if move.status is not TaskStatus.PIPELINED:
            change, queue = sign * move.change, move.job.facts.queue
            move.job.allocated = move.job.allocated + change
            self.queue_changes[queue] = self.queue_changes.get(queue, 0.0) + change
        if self._term_counts is None:
            self._uncounted.append((move, sign))
        else:
            _count_terms(self._term_counts, move, sign)

    def forget(self) -> None:
        """Drop all references to moves at the end of the session."""
        self._uncounted.clear()
        self._made.clear()
        self.jobs.clear()

    @property
    def term_counts(self) -> TermCounts:
        """The counts of pods per (anti-)affinity term, created on first use."""
        if self._term_counts is None:
            terms = self._snapshot.features.terms
            spaces = self._snapshot.objects.of(records.Namespace).values()
            terms.use({space.metadata.name: space.metadata.labels for space in spaces})
            self._term_counts = TermCounts(terms, self._snapshot.residents)
            for move, sign in self._uncounted:
                _count_terms(self._term_counts, move, sign)
            self._uncounted.clear()
        return self._term_counts


def _count_terms(counts: TermCounts, move: Move, sign: int) -> None:
    leaves = move.status is TaskStatus.RELEASING
    counts.moved([task.facts for task in move.tasks], move.rows.tolist(), -sign if leaves else sign)
