"""Action preempt: in one queue, evicts less important pods for more important ones.

In the mode `enableTopologyAwarePreemption`, dry runs on some nodes try the evictions, with affinity and topology. The node with
the smallest loss is chosen, and pods whose eviction does not help are spared.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Final

import numpy as np

from pyroclast_scheduler.eviction.freeable import would_fit
from pyroclast_scheduler.eviction.infeasible import InfeasibleNodes, InfeasibleNodesCache
from pyroclast_scheduler.eviction.preemptor_order import make_room, starving, take_turns, try_in_order
from pyroclast_scheduler.eviction.search import VictimSearch, Wish
from pyroclast_scheduler.eviction.victims import Residents, first_to_go, loss_rank, needed
from pyroclast_scheduler.model.fit_errors import Refusal
from pyroclast_scheduler.model.hypernodes import has_topology
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.tasks import Task, was_preempted
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.extension_points import Candidate
from pyroclast_scheduler.session.minimum_run_time import MinimumRunTime
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.session.statement import Statement, unit_of
from pyroclast_scheduler.session.task_placement import fits, ranked, resolvable


@dataclass(frozen=True, slots=True)
class Loss:
    """A node on which the task fits after the eviction of `victims`, which are sorted with the most important first."""

    row: int
    victims: Sequence[Candidate]

    def rank(self, now: float) -> tuple[float, ...]:
        """Return the sort key, smallest first: the loss of all pods that go with the victims, then the row."""
        going = {each.uid: each for owner, task in self.victims for each in unit_of(owner, task)}
        return (*loss_rank(going.values(), now), self.row)


@dataclass(frozen=True, slots=True)
class DryRun:
    """The settings of dry runs. Nodes are tried until enough of them can be used: `percentage` of all, from `least` to `most`.

    `sees_trials`: whether affinity is evaluated without the victims.
    """

    session: Session
    percentage: int = 10
    least: int = 1
    most: int = 100
    sees_trials: bool = True

    @classmethod
    def of(cls, session: Session, arguments: Arguments) -> DryRun:
        """Return the settings from the arguments of preempt. Flags of predicates tell whether affinity sees the evictions."""
        entries = (entry for tier in session.configuration.tiers for entry in tier if entry.name == "predicates")
        return cls(
            session,
            arguments.integer("minCandidateNodesPercentage", 10),
            arguments.integer("minCandidateNodesAbsolute", 1),
            arguments.integer("maxCandidateNodesAbsolute", 100),
            any(entry.enabled & {"enablePreemptable", "enabledAllocatable"} for entry in entries),
        )

    def losses(self, search: VictimSearch, wish: Wish) -> list[Loss]:
        """Return the tried nodes on which evictions help a task, the smallest loss first."""
        session = self.session
        nodes = resolvable(session, wish.job, wish.task, wish.plan)
        count = int(nodes.sum())
        most = max(1, self.least, min(self.most, count * self.percentage // 100))
        trial = _Trial(session, search, wish, None if self.sees_trials else session.coupled_refusals(wish.task, wish.plan) or ())
        rows = np.flatnonzero(nodes & search.nodes(wish)).tolist()
        among = search.victims(wish, rows, would_fit(session, wish.plan), may_evict_none=False)
        tried = (trial.loss(row, victims) for row, victims in among)
        found = islice((loss for loss in tried if loss is not None), most)
        return sorted(found, key=lambda loss: loss.rank(session.ports.now))


@dataclass(frozen=True, slots=True)
class _Trial:
    """The dry run for one task. `before`: refusals that do not depend on the victims; None: they are evaluated for each trial."""

    session: Session
    search: VictimSearch
    wish: Wish
    before: Sequence[Refusal] | None

    def loss(self, row: int, victims: Sequence[Candidate]) -> Loss | None:
        """Return the pods that must be evicted on node `row`; None if evictions do not help or are not needed."""
        potential: list[Candidate] = []
        for victim in first_to_go(self.session, victims, self.session.queues[self.wish.job.facts.queue]):
            potential.append(victim)
            if self._fits_without(row, potential):
                kept = needed(potential, partial(self._fits_without, row))  # spare the most important victims first
                return Loss(row, kept[::-1]) if kept else None
        return None

    def _fits_without(self, row: int, gone: Sequence[Candidate]) -> bool:
        session, task, plan = self.session, self.wish.task, self.wish.plan
        statement = session.statement()
        self.search.evict(statement, gone)
        is_allowed = bool(session.allocatable(session.queues[self.wish.job.facts.queue], plan, 1, task))
        is_room = bool(plan.room(np.array([row], dtype=np.intp), future=True)[0])
        refusals = session.coupled_refusals(task, plan) or () if self.before is None else self.before
        is_refused = any(refusal.nodes[row] for refusal in refusals)
        statement.discard()
        return is_allowed and is_room and not is_refused


_MEMORY: Final = "preempt"
_NATIVE_NODES: Final = 100
"""For a pod of a group of Kubernetes, the losses of at least so many nodes are compared, as kube-scheduler does by default."""


def execute(session: Session, arguments: Arguments) -> None:
    """Preempt for each starving job from other jobs of its queue, then between the tasks of the job.

    Arguments: `minimumRunTime` (0s); `enableTopologyAwarePreemption` (false), see `dryrun`, with `minCandidateNodesPercentage`
    (10), `minCandidateNodesAbsolute` (1) and `maxCandidateNodesAbsolute` (100).
    """
    residents = Residents(session, MinimumRunTime(session, arguments))
    settings = DryRun.of(session, arguments)
    dry_run = settings if arguments.boolean("enableTopologyAwarePreemption", default=False) else None
    waiting = starving(session, passes=lambda job: not has_topology(job))
    book: InfeasibleNodesCache = session.ports.memory.setdefault(_MEMORY, InfeasibleNodesCache())
    book.open(session.snapshot, session.configuration)
    if not waiting:
        return
    search = VictimSearch(session, residents, InfeasibleNodes(session, book), is_reclaim=False)
    preemption = _Preemption(session, search, dry_run, replace(settings, least=max(settings.least, _NATIVE_NODES)))
    for _, jobs in waiting:
        try_in_order(session, take_turns(session, jobs, preemption.against_others), preemption.against_itself)
    preemption.search.infeasible.close()
    if session.asked_for.time or session.asked_for.services:
        del session.ports.memory[_MEMORY]  # the next session may have other victims without any change


@dataclass(frozen=True, slots=True)
class _Preemption:
    """The action in one session. `dry_run`: None unless dry runs choose the nodes. `native`: that of groups of Kubernetes."""

    session: Session
    search: VictimSearch
    dry_run: DryRun | None
    native: DryRun

    def _dry_run_for(self, job: Job) -> DryRun | None:
        return self.dry_run if job.facts.group.keeps_phase else self.native

    def against_others(self, job: Job) -> Statement | None:
        """Preempt from other jobs. Return what makes room for the job, applied; None if nothing does."""
        infeasible = None if self._dry_run_for(job) is not None else self.search.infeasible

        def take(statement: Statement, task: Task) -> None:
            def may_go(owner: Job, victim: Task) -> bool:
                # a group of Kubernetes evicts nobody of its own priority
                highest = job.facts.granted(task.facts) - (not job.facts.group.keeps_phase)
                is_below = owner.facts.queue == job.facts.queue and owner.facts.granted(victim.facts) <= highest
                return owner is not job and is_below and self._may_go(task, owner, victim)

            kind = None if infeasible is None else infeasible.kind(job, task)
            self._succeeds(statement, Wish(job, task, self.session.plan(task.facts.shape), may_go, kind))

        return make_room(self.session, job, take)

    def against_itself(self, job: Job) -> bool:
        """Preempt between tasks of the job. Return whether a task got any room."""
        session = self.session
        tasks, has_any = deque(session.waiting_in_order(job.tasks)), False
        while tasks:
            session.reorder(tasks)
            task = tasks.popleft()

            def may_go(owner: Job, victim: Task, task: Task = task) -> bool:
                return owner is job and victim.facts.priority < task.facts.priority and self._may_go(task, owner, victim)

            statement = session.statement()
            if not self._succeeds(statement, Wish(job, task, session.plan(task.facts.shape), may_go, is_own=True)):
                statement.discard()
                break
            statement.commit()
            has_any = True
        return has_any

    def _succeeds(self, statement: Statement, wish: Wish) -> bool:
        """Pipeline the task to the best node on which enough pods can be evicted, and evict them. Return whether there is one."""
        session, search, plan = self.session, self.search, wish.plan
        if search.infeasible.is_infeasible(wish.kind) or not self._is_eligible(wish):
            return False
        if session.pre_predicate(wish.task, plan) is not None:
            return False
        if (dry_run := self._dry_run_for(wish.job)) is not None:
            return self._by_dry_run(dry_run, statement, wish)
        fits_now, nodes = would_fit(session, plan), search.nodes(wish)
        has_quota = bool(session.allocatable(session.queues[wish.job.facts.queue], plan, 1, wish.task))
        if has_quota:  # else the queue is full, so a pod of the queue must be evicted
            nodes = nodes | fits_now
        nodes = search.infeasible.open(wish.kind, nodes)
        among = resolvable(session, wish.job, wish.task, plan)
        rows = ranked(session, wish.job, wish.task, plan, nodes & among, among=among)
        for row, victims in search.victims(wish, rows, fits_now, may_evict_none=has_quota):
            self._measure(victims)
            if search.place(statement, wish, row, victims):
                return True
        return False

    def _by_dry_run(self, dry_run: DryRun, statement: Statement, wish: Wish) -> bool:
        """Do the same on the node with the smallest loss, of those on which the eviction is a step forward."""
        for loss in dry_run.losses(self.search, wish):
            self._measure(loss.victims)
            trial = self.session.statement()
            self.search.evict(trial, loss.victims)
            if self.search.pipeline(statement, trial, wish, loss.row, is_room_made=True):
                return True
        return False

    def _measure(self, victims: Sequence[Candidate]) -> None:
        measures = self.session.report.measures
        measures.attempts, measures.victims = measures.attempts + 1, len(victims)

    def _may_go(self, preemptor: Task, owner: Job, victim: Task) -> bool:
        if preemptor.facts.shape.is_best_effort and not victim.facts.shape.is_best_effort:
            return False
        return self.session.is_preemptable(owner, victim)

    def _is_eligible(self, wish: Wish) -> bool:
        """Whether the preemption policy allows evictions for the task, and no victims on its nominated node are being deleted."""
        session, job, task = self.session, wish.job, wish.task
        pod = task.facts.pod
        if pod.spec.preemption_policy == "Never":
            return False
        if not task.facts.nominated:
            return True
        row = session.snapshot.rows.get(task.facts.nominated)
        if row is None or not session.nodes.usable[row]:
            return False
        if not resolvable(session, job, task, wish.plan)[row]:
            return True
        if fits(session, job, task, wish.plan, row):
            return False
        pods = (victim.facts.pod for victim in self.search.residents.going(row))
        lower = (each for each in pods if (each.spec.priority or 0) < (pod.spec.priority or 0))
        return not any(each.metadata.is_terminating and was_preempted(each) for each in lower)
