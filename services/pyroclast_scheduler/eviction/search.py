"""The search for nodes on which evictions make room for a task, and for the fewest victims there, for preempt and reclaim.

The problem: of thousands of nodes with pods on them, find one where evicting some pods lets the task in. The obvious way
simulates the evictions on each node. Instead, columns of amounts that could be freed, by queue and priority, are kept up to
date by increments, and the normal placer searches in idle plus freeable room. Only on the nodes that it finds are victims
chosen one by one.

Invariant: freeable amounts are an upper bound, so a node that does not pass cannot help; a node that passes is verified by its
victims. Nodes that failed are remembered until they change (`infeasible`), so that equal pods do not fail on them again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from pyroclast_scheduler.eviction.freeable import Freeable, would_fit
from pyroclast_scheduler.eviction.infeasible import InfeasibleNodes
from pyroclast_scheduler.eviction.progress import is_step_forward
from pyroclast_scheduler.eviction.victims import Residents, first_to_go, has_enough, needed
from pyroclast_scheduler.model.dimensions import PODS
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools, Rows
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.placement.plans import PlacementPlan
from pyroclast_scheduler.session.extension_points import Candidate, Preemptor
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.session.statement import Statement
from pyroclast_scheduler.session.task_placement import fits

_UNCHECKED: Final = 16  # nodes; most searches end at one of the first nodes
_JOBS_PER_NODE: Final = 4  # jobs that can be asked about in the time that the pods of a node take


@dataclass(frozen=True, slots=True)
class Wish:
    """A task for which pods may be evicted. `may_go` selects the possible victims.

    `kind`: that of the task for `InfeasibleNodes`; None if no results are kept. `is_own`: whether victims are of the same job.
    """

    job: Job
    task: Task
    plan: PlacementPlan
    may_go: Callable[[Job, Task], bool]
    kind: Hashable = None
    is_own: bool = False


class VictimSearch:
    """The search of one action. `is_reclaim`: whether victims are in other queues, else in the queue of the preemptor."""

    def __init__(self, session: Session, residents: Residents, infeasible: InfeasibleNodes, *, is_reclaim: bool) -> None:
        self.residents = residents
        self.infeasible = infeasible
        self._session = session
        self._is_reclaim = is_reclaim
        self._reason = "reclaim" if is_reclaim else "preempt"
        self._freeable = Freeable(session, session.may_lose, is_reclaim=is_reclaim)
        self._refused: Hashable = None  # the kind of the last task for which evictions were no step forward
        self._unchecked = 0  # nodes examined since it was last asked which jobs may lose pods

    def nodes(self, wish: Wish) -> Bools:
        """Return a mask of the nodes on which evictions could make room for a task, as far as requests and queues tell."""
        if wish.is_own:
            own = np.zeros(len(self._session.names), dtype=np.bool_)
            own[[task.row for task in wish.job.tasks if task.row >= 0]] = True
            return own
        freeable = self._freeable.of_queue(wish.job.facts.queue)
        nodes: Bools = would_fit(self._session, wish.plan, freeable) & (freeable[PODS] > 0)
        if self._freeable.knows(_preemptor(wish)):
            promising = self._winnowed(wish, np.flatnonzero(nodes))
            nodes = np.zeros_like(nodes)
            nodes[promising] = True
        return nodes

    def victims(
        self, wish: Wish, rows: Sequence[int], fits_now: Bools, *, may_evict_none: bool
    ) -> Iterator[tuple[int, list[Candidate]]]:
        """Yield each of `rows`, in order, on which the task would fit, with the pods that may be evicted there for the task.

        `fits_now`: a mask of the nodes on which the task would fit without evictions, see `would_fit`. `may_evict_none`: whether
        such nodes are yielded if no pod may be evicted there.
        """
        session, select = self._session, self._session.reclaimable if self._is_reclaim else self._session.preemptable
        is_any = False
        for row in self._promising(wish, rows):
            candidates = self.residents.evictable(row, wish.job, wish.may_go)
            victims = select(wish.task, wish.job, candidates) if candidates else []
            is_idle = may_evict_none and fits_now[row] and (not self._is_reclaim or bool(candidates))
            if has_enough(session, wish.plan, row, victims) if victims else is_idle:
                is_any = True
                yield row, victims
            elif not fits_now[row] and row not in self.residents.withheld:
                self._rule_out(wish, np.array([row], dtype=np.intp))
        if wish.kind is not None and (not is_any or self._refused == wish.kind):
            self.infeasible.give_up(wish.kind)

    def place(self, statement: Statement, wish: Wish, row: int, victims: Sequence[Candidate]) -> bool:
        """Evict as few of `victims` as the task needs on node `row` and pipeline it there; False if that is impossible."""
        session, trial = self._session, self._session.statement()

        def evict(chosen: Sequence[Candidate]) -> bool:
            self.evict(trial, chosen)
            return self._is_placeable(wish, row)

        def is_enough(chosen: Sequence[Candidate]) -> bool:
            if not has_enough(session, wish.plan, row, chosen):
                return False
            is_done = evict(chosen)
            trial.discard()
            return is_done

        gone: list[Candidate] = []
        ordered = deque(first_to_go(session, victims, session.queues[wish.job.facts.queue]))
        while not (is_done := evict(gone[-1:])) and ordered:
            gone.append(ordered.popleft())
        if is_done and len(gone) > 1:
            trial.discard()
            gone = needed(gone, is_enough)
            evict(gone)
        is_room_made = any(self._is_reclaim or not victim.facts.shape.is_best_effort for _, victim in gone)
        # no pod is evicted for room that the task cannot use
        if is_done and (not self._is_reclaim or fits(session, wish.job, wish.task, wish.plan, row)):
            return self.pipeline(statement, trial, wish, row, is_room_made=is_room_made)
        trial.discard()
        return False

    def evict(self, trial: Statement, victims: Sequence[Candidate]) -> None:
        """Evict all of `victims` in `trial`."""
        for owner, victim in victims:
            trial.evict(owner, self._session.plan(victim.facts.shape), victim, self._reason)

    def pipeline(self, statement: Statement, trial: Statement, wish: Wish, row: int, *, is_room_made: bool) -> bool:
        """Pipeline the task to node `row` after the evictions of `trial`; undone if a plugin objects or nothing is won."""
        rows = np.array([row], dtype=np.intp)
        if not trial.pipeline(wish.job, wish.plan, [wish.task], rows, evicted_others=is_room_made):
            trial.discard()
            return False
        if not is_step_forward(self._session, trial.moves, is_reclaim=self._is_reclaim):
            self._refused = wish.kind
            trial.discard()
            if self._is_reclaim:  # preempt keeps infeasible nodes for later sessions, in which the shares of jobs differ
                self._rule_out(wish, rows)
            return False
        statement.merge(trial)
        return True

    def _is_placeable(self, wish: Wish, row: int) -> bool:
        """Whether there is room on node `row`, for reclaim by requests only; else the queue must be able to use the room."""
        session, plan = self._session, wish.plan
        if self._is_reclaim:
            return has_enough(session, plan, row, ())
        if not (plan.shape.is_best_effort or has_enough(session, plan, row, ())):  # a quick check that excludes most states
            return False
        queue = session.queues[wish.job.facts.queue]
        return bool(session.allocatable(queue, plan, 1, wish.task)) and fits(session, wish.job, wish.task, plan, row)

    def _promising(self, wish: Wish, rows: Sequence[int]) -> Iterator[int]:
        """Yield the rows on which the task could fit after jobs lost what they may, unchecked while asking jobs takes longer."""
        if wish.is_own or self._freeable.knows(_preemptor(wish)):
            yield from rows
            return
        affordable = max(_UNCHECKED, self._freeable.jobs // _JOBS_PER_NODE)
        for at, row in enumerate(rows):
            if self._unchecked + (len(rows) - at if at >= _UNCHECKED else 0) > affordable:
                self._unchecked = 0
                yield from self._winnowed(wish, np.array(rows[at:], dtype=np.intp)).tolist()
                return
            self._unchecked += 1
            yield row

    def _winnowed(self, wish: Wish, rows: Rows) -> Rows:
        """Return those of `rows` on which the task could fit after the jobs that may lose pods lost them; rule out the others."""
        would = would_fit(self._session, wish.plan, self._freeable.of_losing(_preemptor(wish)))[rows]
        self._rule_out(wish, rows[~would])
        promising: Rows = rows[would]
        return promising

    def _rule_out(self, wish: Wish, rows: Rows) -> None:
        if wish.kind is not None:
            self.infeasible.add(wish.kind, rows)


def _preemptor(wish: Wish) -> Preemptor:
    return Preemptor(wish.job.facts.queue, wish.job.facts.granted(wish.task.facts))
