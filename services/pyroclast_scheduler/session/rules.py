"""The rules by which what several plugins say becomes one answer: tiers in order, plugins in order inside a tier.

They are Volcano's, and stand apart from the session because they hold no state of their own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain
from typing import Final, TypeVar

import numpy as np

from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.hypernodes import HyperNode
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools, Floats
from pyroclast_scheduler.model.queues import Queue
from pyroclast_scheduler.model.reasons import Refusal
from pyroclast_scheduler.model.retry_conditions import AnyChange, Trigger
from pyroclast_scheduler.model.subjobs import SubJob
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.placement.plans import PlacementPlan
from pyroclast_scheduler.session.extension_points import Candidate, Extensions, GangEviction, Invalid, Purpose, Rank, Vote
from pyroclast_scheduler.session.outcome import Preparation
from pyroclast_scheduler.session.statement import Move
from pyroclast_scheduler.session.whole_units import agreed_whole

__all__ = ["Rules"]

T = TypeVar("T")
_Tiers = list[list[T]]
_NOTHING: Final = np.zeros(1, dtype=np.int64)


class Rules:
    """Questions to all plugins of a session. `tiers`: what each plugin registered, without what its flags switch off."""

    def __init__(self, tiers: Sequence[Sequence[Extensions]]) -> None:
        self._register(tiers)

    def release(self) -> None:
        """Ask no plugin any more, and refer to none."""
        self._register(())

    def _register(self, tiers: Sequence[Sequence[Extensions]]) -> None:
        self._extensions = tiers
        self._job_order = self.all_of(lambda each: each.job_order)
        self._queue_order = self.all_of(lambda each: each.queue_order)
        self._task_order = self.all_of(lambda each: each.task_order)
        self._is_task_order_live = bool(self.all_of(lambda each: each.task_order if each.is_task_order_live else None))
        self._sub_job_order = self.all_of(lambda each: each.sub_job_order)
        self._victim_queue_order = self.all_of(lambda each: each.victim_queue_order)
        self._job_ready = self.all_of(lambda each: each.job_ready)
        self._sub_job_ready = self.all_of(lambda each: each.sub_job_ready)
        self._job_valid = self.all_of(lambda each: each.job_valid)
        self._job_enqueued = self.all_of(lambda each: each.job_enqueued)
        self._overused = self.all_of(lambda each: each.overused)
        self._allocatable = self.all_of(lambda each: each.allocatable)
        self._task_allocatable = self.all_of(lambda each: each.task_allocatable)
        self._preemptive = self.all_of(lambda each: each.preemptive)
        self._pre_predicate = self.all_of(lambda each: each.pre_predicate)
        self._coupled_predicate = self.all_of(lambda each: each.coupled_predicate)
        self._retry_when = self.all_of(_retry_rule)
        self._quota_retry_when = self.all_of(_quota_retry_rule)
        self._has_untold_votes = any(self.all_of(lambda each: each.job_enqueueable and not each.is_enqueue_told))
        self._relative_node_order = self.all_of(lambda each: each.relative_node_order)
        self._batch_node_order = self.all_of(lambda each: each.batch_node_order)
        self._best_node = self.all_of(lambda each: each.best_node)
        self._closed_to = self.all_of(lambda each: each.closed_to)
        self._job_bars = self.all_of(lambda each: each.job_predicate)
        self._job_predicate = self._job_bars + self._closed_to
        self._hyper_node_order = self.all_of(lambda each: each.hyper_node_order)
        self._hyper_node_gradient = self.all_of(lambda each: each.hyper_node_gradient)
        self._target_job = self.all_of(lambda each: each.target_job)
        self._reserve_nodes = self.all_of(lambda each: each.reserve_nodes)
        self._job_pipelined = self._tiers(lambda each: each.job_pipelined)
        self._sub_job_pipelined = self._tiers(lambda each: each.sub_job_pipelined)
        self._job_starving = self._tiers(lambda each: each.job_starving)
        self._job_enqueueable = self._tiers(lambda each: each.job_enqueueable)
        self._preemptable = self._tiers(lambda each: each.preemptable)
        self._reclaimable = self._tiers(lambda each: each.reclaimable)
        self._unified_evictable = self._tiers(lambda each: each.unified_evictable)
        self._victim_tasks = self._tiers(lambda each: each.victim_tasks)
        self._moved = self.all_of(lambda each: each.moved)
        self._objections = self.all_of(lambda each: each.objection)
        self._pre_bind = self.all_of(lambda each: each.pre_bind)

    def all_of(self, point: Callable[[Extensions], T | None]) -> list[T]:
        """What is registered at a point, in order of the configuration."""
        return list(chain.from_iterable(self._tiers(point)))

    def _tiers(self, point: Callable[[Extensions], T | None]) -> _Tiers[T]:
        tiers = [[found for each in tier if (found := point(each)) is not None] for tier in self._extensions]
        return [tier for tier in tiers if tier]

    # -- order: smaller keys go first; the first plugin whose ranks differ decides --------------------------------------

    def job_key(self, job: Job) -> tuple[Rank, ...]:
        """The place of `job` among the jobs of its queue."""
        return (*self.job_order(job), job.facts.created, job.facts.uid)

    def job_order(self, job: Job) -> tuple[Rank, ...]:
        """What the plugins say of the place of `job`, without age and UID, which only break ties."""
        return tuple(rank(job) for rank in self._job_order)

    def sub_job_key(self, job: Job, sub_job: SubJob) -> tuple[Rank, ...]:
        """The place of `sub_job` among those of `job`."""
        return (*(rank(job, sub_job) for rank in self._sub_job_order), sub_job.match_index, sub_job.uid)

    def queue_key(self, queue: Queue) -> tuple[Rank, ...]:
        """The place of `queue` among the queues."""
        return (*(rank(queue) for rank in self._queue_order), queue.facts.created, queue.facts.uid)

    def victim_queue_key(self, queue: Queue, preemptor: Queue) -> tuple[Rank, ...] | None:
        """The place of `queue` among those that lose pods to `preemptor`, the first going first; None where no plugin says."""
        ranks = self._victim_queue_order
        return tuple(rank(queue, preemptor) for rank in ranks) if ranks else None

    def task_key(self, task: Task) -> tuple[Rank, ...]:
        """The place of `task` among the tasks of its job."""
        facts = task.facts
        return (*(rank(task) for rank in self._task_order), facts.part, facts.index, facts.created, facts.uid)

    def reorder(self, tasks: deque[Task]) -> bool:
        """Bring waiting tasks into the order that holds now; whether it can change with each that gets a place."""
        if self._is_task_order_live and len(tasks) > 1:
            ordered = sorted(tasks, key=self.task_key)
            tasks.clear()
            tasks.extend(ordered)
        return self._is_task_order_live

    # -- readiness -----------------------------------------------------------------------------------------------------

    def job_ready(self, job: Job) -> bool:
        """Whether the placements of `job` may be kept."""
        return all(ask(job) for ask in self._job_ready)

    @property
    def has_gangs(self) -> bool:
        """Whether any plugin says that placements of a job may not be kept yet; else each of its pods is for itself."""
        return bool(self._job_ready)

    def sub_job_ready(self, job: Job, sub_job: SubJob) -> bool:
        """Whether the placements of `sub_job` may be kept; those of a job that is not divided if the job's may."""
        if not job.is_divided:
            return self.job_ready(job)
        return all(ask(job, sub_job) for ask in self._sub_job_ready)

    def job_pipelined(self, job: Job) -> bool:
        """Whether `job` would be ready if what was promised to it were there."""
        return _vote((ask(job) for ask in tier) for tier in self._job_pipelined)

    def sub_job_pipelined(self, job: Job, sub_job: SubJob) -> bool:
        """Whether `sub_job` would be ready if what was promised to it were there."""
        if not job.is_divided:
            return self.job_pipelined(job)
        return _vote((ask(job, sub_job) for ask in tier) for tier in self._sub_job_pipelined)

    def job_invalid(self, job: Job) -> Invalid | None:
        """Why `job` cannot be worked on, None if it can."""
        hold = job.facts.group.spec.hold
        if hold is not None:
            return Invalid(hold.reason, hold.text)
        return next((found for ask in self._job_valid if (found := ask(job)) is not None), None)

    def job_starving(self, job: Job) -> bool:
        """Whether `job` may take places from others; the first tier that has an opinion decides."""
        tiers = self._job_starving
        return bool(tiers) and all(ask(job) for ask in tiers[0])

    def job_enqueueable(self, job: Job) -> bool:
        """Whether `job` may enter."""
        return _vote((ask(job) for ask in tier) for tier in self._job_enqueueable)

    def enqueue_retry_when(self, job: Job) -> set[Trigger]:
        """What may let in `job`, which was refused, beside a change of its queue."""
        told = None if job.cause is None or self._has_untold_votes else job.cause.retry_when
        return {AnyChange()} if told is None else set(told)

    def job_enqueued(self, job: Job) -> None:
        """Tell the plugins that `job` entered."""
        for notify in self._job_enqueued:
            notify(job)

    # -- quota ---------------------------------------------------------------------------------------------------------

    def overused(self, queue: Queue, extra: Ints = _NOTHING) -> bool:
        """Whether `queue` has more than its share, if it took `extra` too."""
        return any(ask(queue, extra) for ask in self._overused)

    def allocatable(self, queue: Queue, plan: PlacementPlan, count: int, task: Task | None = None) -> int:
        """How many of `count` pods like that `queue` may still take; `task`: the first of them, where that is known."""
        if task is not None and task.facts.shape.has_claims and not all(ask(queue, task) for ask in self._task_allocatable):
            return 0
        for ask in self._allocatable:
            count = min(count, ask(queue, plan, count))
        return max(count, 0)

    def quota_retry_when(self, job: Job, tasks: Sequence[Task]) -> set[Trigger]:
        """What may let the queue of `job` take more of these tasks, which wait."""
        return set(chain.from_iterable(ask(job, tasks) for ask in self._quota_retry_when))

    def preemptive(self, queue: Queue, amount: Ints) -> bool:
        """Whether `queue` may take places from others for `amount` more."""
        return all(ask(queue, amount) for ask in self._preemptive)

    # -- victims -------------------------------------------------------------------------------------------------------

    def preemptable(self, preemptor: Task, job: Job, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Those of `candidates` that may go for `preemptor`, a task of `job` in the same queue."""
        return agreed_whole(candidates, lambda asked: _agreed(self._preemptable, asked, preemptor, job), job)

    def reclaimable(self, preemptor: Task, job: Job, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Those of `candidates` that may go for `preemptor`, a task of `job` in another queue."""
        return agreed_whole(candidates, lambda asked: _agreed(self._reclaimable, asked, preemptor, job), job)

    def unified_evictable(self, wish: GangEviction, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Those of `candidates` that may go for a whole gang."""
        return agreed_whole(candidates, lambda asked: _agreed(self._unified_evictable, asked, wish), wish.job)

    def victim_tasks(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Those of `candidates` that should go anyway: what any plugin of the first tier with an answer says."""
        candidates = [pair for pair in candidates if not pair[0].facts.group.spec.is_protected]
        for tier in self._victim_tasks:
            uids = {task.uid for ask in tier for _, task in ask(candidates)}
            if uids:
                return [pair for pair in candidates if pair[1].uid in uids]
        return []

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def pre_predicate(self, task: Task, plan: PlacementPlan) -> str | None:
        """Why `task` fits no node at all, None if nodes have to be looked at."""
        return next((why for ask in self._pre_predicate if (why := ask(task, plan)) is not None), None)

    def coupled_refusals(self, task: Task, plan: PlacementPlan) -> list[Refusal] | None:
        """Refusals that depend on where other pods are; None if that does not matter to `task`.

        A plugin that refuses no node now may refuse some for the next pod: that is a refusal of none, and not a steady one.
        """
        found: list[Refusal] | None = None
        for ask in self._coupled_predicate:
            refusals = ask(task, plan)
            if refusals is not None:
                found = [*(found or ()), *(refusals or (Refusal(np.zeros_like(plan.mask), ""),))]
        return found

    def retry_when(self, job: Job, task: Task, plan: PlacementPlan) -> set[Trigger]:
        """What else than their room may change which nodes take `task` of `job`."""
        return set(chain.from_iterable(ask(job, task, plan) for ask in self._retry_when))

    def batch_scores(self, job: Job, task: Task, plan: PlacementPlan, candidates: Bools) -> Floats | None:
        """The scores that depend on which nodes are candidates; None if they say nothing."""
        found = [scores for ask in self._batch_node_order if (scores := ask(job, task, plan, candidates)) is not None]
        return np.sum(found, axis=0) if found else None

    def relative_scores(self, plan: PlacementPlan, candidates: Bools) -> Floats | None:
        """The scores that depend on the shape and on which nodes are candidates, and on nothing else."""
        found = [scores for ask in self._relative_node_order if (scores := ask(plan, candidates)) is not None]
        return np.sum(found, axis=0) if found else None

    @property
    def has_relative_scores(self) -> bool:
        """Whether any plugin may score candidates against each other."""
        return bool(self._relative_node_order)

    @property
    def has_batch_scores(self) -> bool:
        """Whether any plugin may score candidates together."""
        return bool(self._batch_node_order)

    @property
    def has_best_node(self) -> bool:
        """Whether any plugin may overrule scores."""
        return bool(self._best_node)

    def best_node(self, task: Task, plan: PlacementPlan, scores: Floats) -> int | None:
        """The row that a plugin wants instead of the best score."""
        return next((row for ask in self._best_node if (row := ask(task, plan, scores)) is not None), None)

    def job_refusals(self, job: Job) -> list[Refusal]:
        """Why nodes take no pod of `job` at all: what its PodGroup or queue says, and locks."""
        return [refusal for ask in self._job_predicate for refusal in ask(job)]

    def closed_to(self, job: Job) -> Bools | None:
        """Nodes that take no pod of `job` at all; None if there are none."""
        masks = [refusal.nodes for refusal in self.job_refusals(job)]
        return np.logical_or.reduce(masks) if masks else None

    def barred_to(self, job: Job) -> Bools | None:
        """Nodes that take no pod of `job` by what its PodGroup or queue says, locks apart; None if there are none."""
        masks = [refusal.nodes for ask in self._job_bars for refusal in ask(job)]
        return np.logical_or.reduce(masks) if masks else None

    def locked_to(self, job: Job) -> Bools | None:
        """Nodes that are kept for others than `job`; None if there are none."""
        masks = [refusal.nodes for ask in self._closed_to for refusal in ask(job)]
        return np.logical_or.reduce(masks) if masks else None

    # -- moves ---------------------------------------------------------------------------------------------------------

    def notify_moved(self, move: Move, sign: int) -> None:
        """Tell the plugins that `move` was made (1) or undone (−1)."""
        for notify in self._moved:
            notify(move, sign)

    @property
    def has_objections(self) -> bool:
        """Whether any plugin may have a place taken back that was given."""
        return bool(self._objections)

    def objection(self, move: Move) -> str | None:
        """Why the places that `move` gave are to be taken back, None if they are not."""
        return next((why for ask in self._objections if (why := ask(move)) is not None), None)

    def preparations(self, placed: Sequence[tuple[Task, int]]) -> dict[str, tuple[Preparation, ...]]:
        """What has to be done before the pods are bound to the nodes of these rows, by UID."""
        found: dict[str, tuple[Preparation, ...]] = {}
        for prepare in self._pre_bind:
            for task, row in placed:
                preparation = prepare(task, row)
                if preparation is not None:
                    found[task.uid] = (*found.get(task.uid, ()), preparation)
        return found

    # -- hypernodes and reservation ------------------------------------------------------------------------------------

    def hyper_node_scores(self, job: Job, sub_job: SubJob, candidates: Sequence[HyperNode]) -> Floats:
        """A score for each of `candidates`."""
        total = np.zeros(len(candidates))
        for ask in self._hyper_node_order:
            total = total + ask(job, sub_job, candidates)
        return total

    def hyper_node_gradient(
        self, job: Job, sub_job: SubJob | None, top: HyperNode, purpose: Purpose
    ) -> Sequence[Sequence[HyperNode]]:
        """Which hypernodes at or below `top` to try, in lists tried one after another; the first plugin decides."""
        asked = self._hyper_node_gradient
        return (asked[0](job, sub_job, top, purpose) or []) if asked else [[top]]

    def target_job(self, jobs: Sequence[Job]) -> Job | None:
        """Which of `jobs` is to be reserved for; the first plugin decides."""
        asked = self._target_job
        return asked[0](jobs) if asked else None

    def reserve_nodes(self) -> None:
        """Lock another node for the target job."""
        for reserve in self._reserve_nodes:
            reserve()


def _retry_rule(each: Extensions) -> Callable[[Job, Task, PlacementPlan], Collection[Trigger]]:
    """What may change what one plugin says of nodes because of others: anything, where it does not tell."""
    told = each.retry_when
    if told is not None:
        return lambda _job, task, plan: told(task, plan) or ()
    return lambda job, task, plan: (AnyChange(),) if _is_concerned(each, job, task, plan) else ()


def _is_concerned(each: Extensions, job: Job, task: Task, plan: PlacementPlan) -> bool:
    """Whether one plugin keeps `task` off nodes, or may do so, because of more than these nodes themselves."""
    if each.pre_predicate is not None and each.pre_predicate(task, plan) is not None:
        return True
    if each.coupled_predicate is not None and each.coupled_predicate(task, plan) is not None:
        return True
    return each.closed_to is not None and any(refusal.nodes.any() for refusal in each.closed_to(job))


def _quota_retry_rule(each: Extensions) -> Callable[[Job, Sequence[Task]], Collection[Trigger]] | None:
    """What may change what one plugin says of quotas: anything, where it does not tell."""
    if (each.allocatable is None and each.task_allocatable is None) or each.quota_retry_when is not None:
        return each.quota_retry_when
    return lambda _job, _tasks: (AnyChange(),)


def _vote(tiers: Iterable[Iterable[Vote]]) -> bool:
    """A rejection ends the vote; a permission decides unless one follows in its tier. All abstain: permitted."""
    for votes in tiers:
        is_permitted = False
        for vote in votes:
            if vote < Vote.ABSTAIN:
                return False
            is_permitted |= vote > Vote.ABSTAIN
        if is_permitted:
            return True
    return True


def _agreed(
    tiers: _Tiers[Callable[..., list[Candidate] | None]], candidates: Sequence[Candidate], *wish: Task | Job | GangEviction
) -> list[Candidate]:
    """The candidates that all plugins of the first tier with an answer agree on; `wish`: what they are asked for."""
    for tier in tiers:
        chosen: list[Candidate] | None = None
        for ask in tier:
            found = ask(*wish, candidates)
            if found is None:
                continue
            if not found:
                chosen = None
                break
            uids = {task.uid for _, task in found}
            chosen = [pair for pair in (candidates if chosen is None else chosen) if pair[1].uid in uids]
            if not chosen:
                break
        if chosen:
            return chosen
    return []
