"""The moves of a session so far, from which plugins and searches know the results that are outdated."""

from __future__ import annotations

from pyroclast.api import records
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Floats, Rows
from pyroclast_scheduler.model.snapshot import Snapshot
from pyroclast_scheduler.model.statuses import TaskStatus
from pyroclast_scheduler.model.term_counts import TermCounts
from pyroclast_scheduler.session.statement import Move


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
