"""Action preempt: in one queue, evicts less important pods for more important ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from pyroclast_scheduler.eviction.dryrun import DryRun
from pyroclast_scheduler.eviction.infeasible import InfeasibleNodes, InfeasibleNodesCache
from pyroclast_scheduler.eviction.preemptor_order import make_room, starving, take_turns, try_in_order
from pyroclast_scheduler.eviction.victims import Residents, first_to_go, has_enough, may_hold, needed, would_fit
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools, Rows
from pyroclast_scheduler.model.tasks import Task, was_preempted
from pyroclast_scheduler.model.topology import has_topology
from pyroclast_scheduler.placement.plans import PlacementPlan
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.extension_points import Candidate
from pyroclast_scheduler.session.minimum_run_time import MinimumRunTime
from pyroclast_scheduler.session.search import fits, ranked, resolvable
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.session.statement import Statement

__all__ = ["execute"]

_REASON: Final = "preempt"
_MEMORY: Final = "preempt"
_Keep = Callable[[Job, Task], bool]


def execute(session: Session, arguments: Arguments) -> None:
    """Preempt for each starving job from other jobs of its queue, then between the tasks of the job.

    Arguments: `minimumRunTime` (0s); `enableTopologyAwarePreemption` (false), see `dryrun`, with `minCandidateNodesPercentage`
    (10), `minCandidateNodesAbsolute` (1) and `maxCandidateNodesAbsolute` (100).
    """
    dry_run: DryRun | None = DryRun.of(session, arguments)
    if not arguments.boolean("enableTopologyAwarePreemption", default=False):
        dry_run = None
    residents = Residents(session, MinimumRunTime(session, arguments))
    waiting = starving(session, passes=lambda job: not has_topology(job))
    book: InfeasibleNodesCache = session.ports.memory.setdefault(_MEMORY, InfeasibleNodesCache())
    book.open(session.snapshot, session.configuration)
    if not waiting:
        return
    infeasible = InfeasibleNodes(session, book)
    against_others = partial(_against_others, session, residents, infeasible, dry_run)
    against_itself = partial(_against_itself, session, residents, dry_run)
    for _, jobs in waiting:
        try_in_order(session, take_turns(session, jobs, against_others), against_itself)
    infeasible.close()
    if session.asked_for.time or session.asked_for.services:
        del session.ports.memory[_MEMORY]  # the next session may have other victims without any change


def _against_others(
    session: Session, residents: Residents, infeasible: InfeasibleNodes, dry_run: DryRun | None, job: Job
) -> bool:
    """Preempt from other jobs. Return whether the job got any room."""

    def take(statement: Statement, task: Task) -> None:
        def keep(owner: Job, victim: Task) -> bool:
            return owner is not job and owner.facts.queue == job.facts.queue and _may_go(session, task, owner, victim)

        _Preemption(session, residents, job, task, keep, dry_run, infeasible).succeeds(statement)

    return make_room(session, job, take)


def _against_itself(session: Session, residents: Residents, dry_run: DryRun | None, job: Job) -> bool:
    """Preempt between tasks of the job. Return whether a task got any room."""
    tasks, has_any = deque(session.waiting_in_order(job.tasks)), False
    while tasks:
        session.reorder(tasks)
        task = tasks.popleft()
        own = np.zeros(len(session.names), dtype=np.bool_)
        own[[each.row for each in job.tasks if each.row >= 0]] = True

        def keep(owner: Job, victim: Task, task: Task = task) -> bool:
            return owner is job and _may_go(session, task, owner, victim)

        statement = session.statement()
        if not _Preemption(session, residents, job, task, keep, dry_run, where=own).succeeds(statement):
            statement.discard()
            break
        statement.commit()
        has_any = True
    return has_any


@dataclass(frozen=True, slots=True)
class _Preemption:
    """A preemption for one task of `job`. `keep`: selects the possible victims.

    `where`: the nodes of possible victims; None: those with pods of the queue.
    """

    session: Session
    residents: Residents
    job: Job
    task: Task
    keep: _Keep
    dry_run: DryRun | None
    infeasible: InfeasibleNodes | None = None
    where: Bools | None = None

    def succeeds(self, statement: Statement) -> bool:
        """Pipeline the task to the best node on which enough pods can be evicted, and evict them. Return whether there is one."""
        session, task, infeasible = self.session, self.task, self.infeasible
        kind = None if infeasible is None or self.dry_run is not None else infeasible.kind(self.job, task)
        if infeasible is not None and infeasible.is_infeasible(kind):
            return False
        plan = session.plan(task.facts.shape)
        if not self._may_take(plan) or not may_hold(session, plan).any():
            return False
        if self.dry_run is not None:
            return self._by_dry_run(self.dry_run, statement, plan)
        nodes = resolvable(session, self.job, task, plan)
        if infeasible is not None:
            nodes = infeasible.open(kind, nodes)
        fits_now = has_room = would_fit(session, plan)
        if not session.allocatable(session.queues[self.job.facts.queue], plan, 1, task):
            has_room = np.zeros_like(fits_now)  # the queue is full, so a pod of the queue must be evicted
        where = self.residents.where(self.job.facts.queue) if self.where is None else self.where
        nodes = nodes & (where | has_room)
        is_tried = False
        ordered = ranked(session, self.job, task, plan, nodes)
        for row in ordered if infeasible is None else self._promising(infeasible, kind, ordered, has_room, fits_now):
            victims = session.preemptable(task, self.job, self.residents.evictable(row, self.job, self.keep))
            if has_enough(session, plan, row, victims) if victims else has_room[row]:
                is_tried = True
                session.report.measures.attempts += 1
                session.report.measures.victims = len(victims)
                if self._on(statement, plan, row, victims):
                    return True
            elif (
                infeasible is not None and not fits_now[row] and row not in self.residents.withheld
            ):  # not if only the limit of the queue refused
                infeasible.add(kind, row)
        if infeasible is not None and not is_tried:
            infeasible.give_up(kind)
        return False

    def _promising(
        self, infeasible: InfeasibleNodes, kind: Hashable, rows: Sequence[int], has_room: Bools, fits_now: Bools
    ) -> Iterator[int]:
        """Yield the rows with possible victims or with room, and record that other rows are infeasible if they have no room."""

        def skip(others: Rows) -> None:
            infeasible.add(kind, others[~fits_now[others]])

        return self.residents.promising(rows, self.job, is_reclaim=False, besides=has_room, skip=skip)

    def _may_take(self, plan: PlacementPlan) -> bool:
        """Whether pods may be evicted for the task at all."""
        session, task = self.session, self.task
        return _is_eligible(session, self.residents, plan, self.job, task) and session.pre_predicate(task, plan) is None

    def _by_dry_run(self, dry_run: DryRun, statement: Statement, plan: PlacementPlan) -> bool:
        """Do the same as `succeeds`, on the node with the smallest loss."""
        session, job, task = self.session, self.job, self.task
        best = dry_run.best(job, task, plan, lambda row: self.residents.evictable(row, job, self.keep))
        if best is None:
            return False
        session.report.measures.attempts += 1
        session.report.measures.victims = len(best.victims)
        trial = session.statement()
        for owner, victim in best.victims:
            trial.evict(owner, session.plan(victim.facts.shape), victim, _REASON)
        return self._is_kept(statement, trial, plan, best.row, is_room_made=True)

    def _on(self, statement: Statement, plan: PlacementPlan, row: int, victims: Sequence[Candidate]) -> bool:
        """Evict as many of `victims` as the task needs to be pipelined to node `row`.

        Return False, without evictions, if impossible.
        """
        session, task = self.session, self.task
        queue = session.queues[self.job.facts.queue]
        trial = session.statement()

        def is_placeable() -> bool:
            return bool(session.allocatable(queue, plan, 1, task)) and fits(session, self.job, task, plan, row)

        def evict(chosen: Sequence[Candidate]) -> bool:
            for owner, victim in chosen:
                trial.evict(owner, session.plan(victim.facts.shape), victim, _REASON)
            return is_placeable()

        def is_enough(chosen: Sequence[Candidate]) -> bool:
            if not has_enough(session, plan, row, chosen):  # a quick check that excludes most sets
                return False
            is_done = evict(chosen)
            trial.discard()
            return is_done

        gone: list[Candidate] = []
        ordered = deque(first_to_go(session, victims, queue))
        while ordered and not is_placeable():
            gone.append(ordered.popleft())
            evict(gone[-1:])
        if not is_placeable():
            trial.discard()
            return False
        if len(gone) > 1:
            trial.discard()
            gone = needed(gone, is_enough)
            evict(gone)
        is_room_made = any(not victim.facts.shape.is_best_effort for _, victim in gone)
        return self._is_kept(statement, trial, plan, row, is_room_made=is_room_made)

    def _is_kept(self, statement: Statement, trial: Statement, plan: PlacementPlan, row: int, *, is_room_made: bool) -> bool:
        """Pipeline the task to node `row` after the evictions of `trial`, and merge both into `statement`.

        Return False, with everything undone, if a plugin objects.
        """
        rows = np.array([row], dtype=np.intp)
        if not trial.pipeline(self.job, plan, [self.task], rows, evicted_others=is_room_made):
            trial.discard()
            return False
        statement.merge(trial)
        return True


def _may_go(session: Session, preemptor: Task, owner: Job, victim: Task) -> bool:
    if preemptor.facts.shape.is_best_effort and not victim.facts.shape.is_best_effort:
        return False
    return session.is_preemptable(owner, victim)


def _is_eligible(session: Session, residents: Residents, plan: PlacementPlan, job: Job, task: Task) -> bool:
    """Whether pods may be evicted for `task`.

    They may not if the preemption policy of the pod forbids it, nor while victims on its nominated node are being deleted.
    """
    pod = task.facts.pod
    if pod.spec.preemption_policy == "Never":
        return False
    nominated = task.facts.nominated
    if not nominated:
        return True
    row = session.snapshot.rows.get(nominated)
    if row is None or not session.nodes.usable[row]:
        return False
    if not resolvable(session, job, task, plan)[row]:
        return True
    if fits(session, job, task, plan, row):
        return False
    return not any(_makes_room(victim, pod.spec.priority or 0) for victim in residents.going(row))


def _makes_room(victim: Task, priority: int) -> bool:
    """Whether `victim` is being deleted because a pod with that priority preempted it."""
    pod = victim.facts.pod
    return (pod.spec.priority or 0) < priority and pod.metadata.is_terminating and was_preempted(pod)
