"""The rules of Volcano that combine the results of several plugins: tiers in order, and plugins in order within a tier."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np

from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.fit_errors import Refusal
from pyroclast_scheduler.model.hypernodes import HyperNode
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools, Floats
from pyroclast_scheduler.model.queues import Queue
from pyroclast_scheduler.model.subjobs import SubJob
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.model.triggers import AnyChange, Trigger
from pyroclast_scheduler.placement.plans import PlacementPlan
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.configuration import PluginEntry
from pyroclast_scheduler.session.extension_points import (
    POINTS,
    Candidate,
    Combine,
    Extensions,
    GangEviction,
    Invalid,
    Preemptor,
    Purpose,
    Rank,
    Vote,
)
from pyroclast_scheduler.session.outcome import Preparation
from pyroclast_scheduler.session.statement import Move, agreed_whole

P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class OpenedPlugins:
    """The plugins of a session and their extensions.

    Attributes:
        tiers: the extensions by tier, without those whose flags are off.
        closers: name and function of each plugin that runs code at the end of the session.
        ranked_by: the names of the plugins that order jobs.
        are_labels_read: whether a plugin may read pod labels that no affinity term uses.
    """

    tiers: list[list[Extensions]]
    closers: list[tuple[str, Callable[[], None]]]
    ranked_by: tuple[str, ...]
    are_labels_read: bool


def open_plugins(
    tiers: Sequence[Sequence[PluginEntry]],
    plugins: Mapping[str, Callable[[Arguments], P]],
    open_plugin: Callable[[str, P], Extensions],
    warnings: list[str],
) -> OpenedPlugins:
    """Open the configured plugins that exist. If a plugin is listed twice, its last instance serves both entries.

    `open_plugin`: opens a plugin of that name in the session. `warnings`: receives texts about invalid arguments.
    """
    offered: dict[str, Extensions] = {}
    for entry in (entry for tier in tiers for entry in tier):
        factory = plugins.get(entry.name)
        if factory is None:
            continue
        arguments = Arguments(entry.arguments, entry.enabled)
        offered[entry.name] = open_plugin(entry.name, factory(arguments))
        warnings += [f"plugin {entry.name}: {text}" for text in arguments.problems()]
    named = [[(entry.name, offered[entry.name].only(entry.enabled)) for entry in tier if entry.name in offered] for tier in tiers]
    return OpenedPlugins(
        [[each for _, each in tier] for tier in named],
        [(name, each.close) for name, each in offered.items() if each.close is not None],
        tuple(name for tier in named for name, each in tier if each.job_order is not None),
        any(_reads_labels(plugins[name]) for name in offered),
    )


def _reads_labels(plugin: object) -> bool:
    """Whether a plugin may read any pod label. A plugin from another package does unless it declares otherwise."""
    is_ours = getattr(plugin, "__module__", "").startswith(f"{__name__.partition('.')[0]}.")
    return bool(getattr(plugin, "reads_labels", not is_ours))


T = TypeVar("T")
_Tiers = list[list[T]]
_Rule: TypeAlias = Callable[[list[Any]], Callable[..., Any]]
_NOTHING: Final = np.zeros(1, dtype=np.int64)


class Rules:
    """The combined results of all plugins of a session. `tiers`: the extensions by tier, without those whose flags are off."""

    def __init__(self, tiers: Sequence[Sequence[Extensions]]) -> None:
        self._points = {name: _tiers_of(tiers, attrgetter(name)) for name in POINTS}
        self._points["retry_when"] = _tiers_of(tiers, _retry_rule)
        self._points["quota_retry_when"] = _tiers_of(tiers, _quota_retry_rule)
        self._points["spares_preempted"] = _sparing(tiers, "preemptable", "spares_preempted")
        self._points["spares_reclaimed"] = _sparing(tiers, "reclaimable", "spares_reclaimed")
        self._of = {name: list(chain.from_iterable(functions)) for name, functions in self._points.items()}
        self._ask = {
            name: _COMBINED[point.combine](self._of[name]) for name, point in POINTS.items() if point.combine in _COMBINED
        }
        every = list(chain.from_iterable(tiers))
        self._is_task_order_live = any(each.task_order is not None and each.is_task_order_live for each in every)
        self._has_untold_votes = any(each.job_enqueueable is not None and not each.is_enqueue_told for each in every)

    def all_of(self, point: str) -> list[Any]:
        """Return the functions registered at the extension point of that name, in the order of the configuration."""
        return self._of[point]

    # -- order: the smallest key is first; the first plugin whose ranks differ decides ----------------------------------

    def job_key(self, job: Job) -> tuple[Rank, ...]:
        """Return the sort key of `job` among the jobs of its queue."""
        return (*self.job_order(job), *job.facts.arrived, job.facts.uid)

    def job_order(self, job: Job) -> tuple[Rank, ...]:
        """Return the ranks of `job` by the plugins, without age and UID, which only break ties."""
        return self._ranks("job_order", job)

    def sub_job_key(self, job: Job, sub_job: SubJob) -> tuple[Rank, ...]:
        """Return the sort key of `sub_job` among the sub-jobs of `job`."""
        return (*self._ranks("sub_job_order", job, sub_job), sub_job.match_index, sub_job.uid)

    def queue_key(self, queue: Queue) -> tuple[Rank, ...]:
        """Return the sort key of `queue` among all queues."""
        return (*self._ranks("queue_order", queue), queue.facts.created, queue.facts.uid)

    def victim_queue_key(self, queue: Queue, preemptor: Queue) -> tuple[Rank, ...] | None:
        """Return the sort key of `queue` among those that may lose pods to `preemptor`; None if no plugin orders them."""
        return self._ranks("victim_queue_order", queue, preemptor) or None

    def task_key(self, task: Task) -> tuple[Rank, ...]:
        """Return the sort key of `task` among the tasks of its job."""
        facts = task.facts
        return (*self._ranks("task_order", task), facts.part, facts.index, facts.created, facts.arrival, facts.uid)

    def reorder(self, tasks: deque[Task]) -> bool:
        """Sort pending tasks by their present keys. Return whether each placement may change the order."""
        if self._is_task_order_live and len(tasks) > 1:
            ordered = sorted(tasks, key=self.task_key)
            tasks.clear()
            tasks.extend(ordered)
        return self._is_task_order_live

    # -- readiness -----------------------------------------------------------------------------------------------------

    def job_ready(self, job: Job) -> bool:
        """Whether the placements of `job` may be committed."""
        return bool(self._ask["job_ready"](job))

    def sub_job_ready(self, job: Job, sub_job: SubJob) -> bool:
        """Whether the placements of `sub_job` may be committed. Without sub-jobs, `job_ready` decides."""
        if not job.is_divided:
            return self.job_ready(job)
        return bool(self._ask["sub_job_ready"](job, sub_job))

    def job_pipelined(self, job: Job) -> bool:
        """Whether `job` would be ready if its pipelined tasks were allocated."""
        return self._vote("job_pipelined", job)

    def sub_job_pipelined(self, job: Job, sub_job: SubJob) -> bool:
        """Whether `sub_job` would be ready if its pipelined tasks were allocated."""
        if not job.is_divided:
            return self.job_pipelined(job)
        return self._vote("sub_job_pipelined", job, sub_job)

    def job_invalid(self, job: Job) -> Invalid | None:
        """Return why `job` cannot be scheduled, None if it can."""
        if (hold := job.facts.group.spec.hold) is not None:
            return Invalid(hold.reason, hold.text)
        invalid: Invalid | None = self._ask["job_valid"](job)
        return invalid

    def job_starving(self, job: Job) -> bool:
        """Whether pods may be evicted for `job`. All plugins of the first tier that implements `job_starving` must agree."""
        tiers = self._points["job_starving"]
        return bool(tiers) and all(ask(job) for ask in tiers[0])

    def job_enqueueable(self, job: Job) -> bool:
        """Whether `job` may be enqueued."""
        return self._vote("job_enqueueable", job)

    def enqueue_retry_when(self, job: Job) -> set[Trigger]:
        """Return the triggers, besides a change of the queue, after which the refused `job` may be enqueued."""
        told = None if job.cause is None or self._has_untold_votes else job.cause.retry_when
        return {AnyChange()} if told is None else set(told)

    def job_enqueued(self, job: Job) -> None:
        """Notify the plugins that `job` was enqueued."""
        self._ask["job_enqueued"](job)

    # -- quota ---------------------------------------------------------------------------------------------------------

    def overused(self, queue: Queue, extra: Ints = _NOTHING) -> bool:
        """Whether `queue` would exceed its share if `extra` were allocated to it too."""
        return bool(self._ask["overused"](queue, extra))

    def allocatable(self, queue: Queue, plan: PlacementPlan, count: int, task: Task | None = None) -> int:
        """Return how many of `count` pods with `plan` the queue may still use. `task`: the first of these pods, if known."""
        if task is not None and task.facts.shape.has_claims and not self._ask["task_allocatable"](queue, task):
            return 0
        for ask in self._of["allocatable"]:
            count = min(count, ask(queue, plan, count))
        return max(count, 0)

    def quota_retry_when(self, job: Job, tasks: Sequence[Task]) -> set[Trigger]:
        """Return the triggers after which the queue of `job` may accept more of `tasks`."""
        return set(self._ask["quota_retry_when"](job, tasks))

    def preemptive(self, queue: Queue, amount: Ints) -> bool:
        """Whether pods of other queues may be evicted for `amount` more in `queue`."""
        return bool(self._ask["preemptive"](queue, amount))

    def lowers_lack(self, moves: Sequence[Move]) -> bool | None:
        """Whether `moves`, which are applied, lowered what queues lack, by every plugin that measures it; None if none does."""
        return bool(self._ask["lowers_lack"](moves)) if self.all_of("lowers_lack") else None

    # -- victims -------------------------------------------------------------------------------------------------------

    def preemptable(self, preemptor: Task, job: Job, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return those of `candidates` that may be evicted for `preemptor`, a task of `job` in the same queue."""
        return agreed_whole(candidates, lambda asked: _agreed(self._points["preemptable"], asked, preemptor, job), job)

    def reclaimable(self, preemptor: Task, job: Job, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return those of `candidates` that may be evicted for `preemptor`, a task of `job` in another queue."""
        return agreed_whole(candidates, lambda asked: _agreed(self._points["reclaimable"], asked, preemptor, job), job)

    def may_lose(self, job: Job, preemptor: Preemptor) -> bool:
        """Whether `preemptable` or `reclaimable` may select tasks of `job` at present for other jobs like `preemptor`."""
        point = "spares_preempted" if job.facts.queue == preemptor.queue else "spares_reclaimed"
        return not all(any(spares(job, preemptor) for spares in tier) for tier in self._points[point])

    def unified_evictable(self, wish: GangEviction, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return those of `candidates` that may be evicted for a whole gang."""
        return agreed_whole(candidates, lambda asked: _agreed(self._points["unified_evictable"], asked, wish), wish.job)

    def victim_tasks(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return those of `candidates` that should be evicted without a preemptor: the union of the first tier with a result."""
        candidates = [pair for pair in candidates if not pair[0].facts.group.spec.is_protected]
        for tier in self._points["victim_tasks"]:
            if uids := {task.uid for ask in tier for _, task in ask(candidates)}:
                return [pair for pair in candidates if pair[1].uid in uids]
        return []

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def pre_predicate(self, task: Task, plan: PlacementPlan) -> str | None:
        """Return why no node is feasible for `task`; None if the nodes must be examined."""
        why: str | None = self._ask["pre_predicate"](task, plan)
        return why

    def coupled_refusals(self, task: Task, plan: PlacementPlan) -> list[Refusal] | None:
        """Return the refusals that depend on other pods; None if `task` does not depend on other pods.

        A plugin that refuses no node for this pod, but may for the next one, returns an empty refusal that is not steady.
        """
        found: list[Refusal] | None = None
        for ask in self._of["coupled_predicate"]:
            if (refusals := ask(task, plan)) is not None:
                found = [*(found or ()), *(refusals or (Refusal(np.zeros_like(plan.mask), ""),))]
        return found

    def retry_when(self, job: Job, task: Task, plan: PlacementPlan) -> set[Trigger]:
        """Return the triggers, besides the room of nodes, that may change the set of nodes feasible for `task` of `job`."""
        return set(self._ask["retry_when"](job, task, plan))

    def batch_scores(self, job: Job, task: Task, plan: PlacementPlan, candidates: Bools) -> Floats | None:
        """Return the sum of the `batch_node_order` scores; None if no plugin returns any."""
        scores: Floats | None = self._ask["batch_node_order"](job, task, plan, candidates)
        return scores

    def relative_scores(self, plan: PlacementPlan, candidates: Bools) -> Floats | None:
        """Return the scores that depend only on the shape and on the set of candidates; None if no plugin returns any."""
        scores: Floats | None = self._ask["relative_node_order"](plan, candidates)
        return scores

    def best_node(self, task: Task, plan: PlacementPlan, scores: Floats) -> int | None:
        """Return the row that the first plugin with an answer chooses in place of the best score; None if no plugin answers."""
        row: int | None = self._ask["best_node"](task, plan, scores)
        return row

    def job_refusals(self, job: Job) -> list[Refusal]:
        """Return the refusals that apply to all pods of `job`: by its PodGroup or queue, and by locked nodes."""
        return [*self._ask["job_predicate"](job), *self._ask["closed_to"](job)]

    def closed_to(self, job: Job) -> Bools | None:
        """Return a mask of the nodes that are refused to all pods of `job`; None if no plugin refuses any."""
        return _union(self.job_refusals(job))

    def barred_to(self, job: Job) -> Bools | None:
        """Return the same without locks: the nodes that are refused to `job` by its PodGroup or queue."""
        return _union(self._ask["job_predicate"](job))

    def locked_to(self, job: Job) -> Bools | None:
        """Return a mask of the nodes that are locked against `job`; None if no plugin locks any."""
        return _union(self._ask["closed_to"](job))

    # -- moves ---------------------------------------------------------------------------------------------------------

    def notify_moved(self, move: Move, sign: int) -> None:
        """Notify the plugins that `move` was made (1) or undone (−1)."""
        self._ask["moved"](move, sign)

    def objection(self, move: Move) -> str | None:
        """Return why the placements of `move` must be undone, None if they may stay."""
        why: str | None = self._ask["objection"](move)
        return why

    def preparations(self, placed: Sequence[tuple[Task, int]]) -> dict[str, tuple[Preparation, ...]]:
        """Return the steps that the binds require, by UID of the pod. `placed`: tasks with the rows of their nodes."""
        found: dict[str, tuple[Preparation, ...]] = {}
        for prepare in self._of["pre_bind"]:
            for task, row in placed:
                if (preparation := prepare(task, row)) is not None:
                    found[task.uid] = (*found.get(task.uid, ()), preparation)
        return found

    # -- hypernodes and reservation ------------------------------------------------------------------------------------

    def hyper_node_scores(self, job: Job, sub_job: SubJob, candidates: Sequence[HyperNode]) -> Floats:
        """Return a score for each of `candidates`."""
        scores: Floats | None = self._ask["hyper_node_order"](job, sub_job, candidates)
        return np.zeros(len(candidates)) if scores is None else scores

    def hyper_node_gradient(
        self, job: Job, sub_job: SubJob | None, top: HyperNode, purpose: Purpose
    ) -> Sequence[Sequence[HyperNode]]:
        """Return lists of hypernodes at or below `top`, to be tried one list after another. The first plugin decides."""
        asked = self._of["hyper_node_gradient"]
        return (asked[0](job, sub_job, top, purpose) or []) if asked else [[top]]

    def target_job(self, jobs: Sequence[Job]) -> Job | None:
        """Return the job among `jobs` for which nodes are reserved; None for no job. The first plugin decides."""
        asked = self._of["target_job"]
        return asked[0](jobs) if asked else None

    def reserve_nodes(self) -> None:
        """Lock a further node for the target, the job for which nodes are reserved."""
        self._ask["reserve_nodes"]()

    def _vote(self, point: str, *about: object) -> bool:
        return _vote((ask(*about) for ask in tier) for tier in self._points[point])

    def _ranks(self, point: str, *about: object) -> tuple[Rank, ...]:
        ranks: tuple[Rank, ...] = self._ask[point](*about)
        return ranks


def _union(refusals: Sequence[Refusal]) -> Bools | None:
    return np.logical_or.reduce([refusal.nodes for refusal in refusals]) if refusals else None


def _tiers_of(tiers: Sequence[Sequence[Extensions]], point: Callable[[Extensions], Any]) -> _Tiers[Any]:
    """Return the functions at an extension point by tier, without empty tiers."""
    functions = [[each for extensions in tier if (each := point(extensions)) is not None] for tier in tiers]
    return [tier for tier in functions if tier]


def _sparing(tiers: Sequence[Sequence[Extensions]], rule: str, spares: str) -> _Tiers[Any]:
    """Return for each tier with rules for victims whom the plugins of these rules spare; the list of a tier may be empty."""
    listed = [[getattr(each, spares) for each in tier if getattr(each, rule)] for tier in tiers]
    return [[each for each in tier if each] for tier in listed if tier]


def _retry_rule(each: Extensions) -> Callable[[Job, Task, PlacementPlan], Collection[Trigger]]:
    """Return the rule for the triggers of one plugin: without `retry_when`, AnyChange if the plugin may refuse nodes."""
    told = each.retry_when
    if told is not None:
        return lambda _job, task, plan: told(task, plan) or ()
    return lambda job, task, plan: (AnyChange(),) if _is_concerned(each, job, task, plan) else ()


def _is_concerned(each: Extensions, job: Job, task: Task, plan: PlacementPlan) -> bool:
    """Whether a plugin refuses nodes to `task` for reasons other than the state of these nodes, or may do so."""
    asked = (each.pre_predicate, each.coupled_predicate)
    if any(ask is not None and ask(task, plan) is not None for ask in asked):
        return True
    return each.closed_to is not None and any(refusal.nodes.any() for refusal in each.closed_to(job))


def _quota_retry_rule(each: Extensions) -> Callable[[Job, Sequence[Task]], Collection[Trigger]] | None:
    """Return the rule for the quota triggers of one plugin: AnyChange if the plugin has quotas but no `quota_retry_when`."""
    if (each.allocatable is None and each.task_allocatable is None) or each.quota_retry_when is not None:
        return each.quota_retry_when
    return lambda _job, _tasks: (AnyChange(),)


def _vote(tiers: Iterable[Iterable[Vote]]) -> bool:
    """Return True unless a rejection comes before a permission or in its tier."""
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
    """Return the candidates on which all plugins of the first tier with a result agree. `wish`: what they are asked besides."""
    for tier in tiers:
        chosen: list[Candidate] | None = None
        for ask in tier:
            answer = ask(*wish, candidates)
            if answer is None:
                continue
            uids = {task.uid for _, task in answer}
            chosen = [pair for pair in (candidates if chosen is None else chosen) if pair[1].uid in uids]
            if not chosen:
                break
        if chosen:
            return chosen
    return []


def _each(combine: Callable[[Iterable[Any]], Any]) -> _Rule:
    """Return a rule that combines the answers of all plugins, whatever their tier."""
    return lambda functions: lambda *about: combine(ask(*about) for ask in functions)


def _first(answers: Iterable[Any]) -> Any:  # noqa: ANN401 - the answer of a plugin
    return next((answer for answer in answers if answer is not None), None)


def _sum(answers: Iterable[Floats | None]) -> Floats | None:
    scores = [answer for answer in answers if answer is not None]
    return np.sum(scores, axis=0) if scores else None


_COMBINED: Final[Mapping[Combine, _Rule]] = {
    Combine.RANKS: _each(tuple),
    Combine.EVERY: _each(all),
    Combine.ANY: _each(any),
    Combine.FIRST: _each(_first),
    Combine.UNION: _each(lambda answers: [each for answer in answers for each in answer or ()]),
    Combine.SUM: _each(_sum),
    Combine.CALL: _each(list),
}
"""The rules whose answers need no more than the table says. The others stand in the methods of `Rules`."""
