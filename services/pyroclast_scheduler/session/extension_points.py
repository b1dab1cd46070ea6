"""The extension points of a session: when a plugin is called, with which arguments, and what its result means.

Each extension point is one field of `Extensions`, with the flag that switches it and how the answers of several plugins
combine. A new point is one line there, its description in the docstring, and a typed method in `rules`.
"""
# ruff: noqa: RUF009 - `_point` returns a dataclass field

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum, IntEnum
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.fit_errors import Refusal
from pyroclast_scheduler.model.hypernodes import HyperNode
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools, Floats
from pyroclast_scheduler.model.queues import Queue
from pyroclast_scheduler.model.subjobs import SubJob
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.model.triggers import Trigger
from pyroclast_scheduler.placement.plans import NodeScore, PlacementPlan, Predicate
from pyroclast_scheduler.session.outcome import Preparation
from pyroclast_scheduler.session.statement import Move

__all__ = [
    "DEFAULT_OFF",
    "FLAGS",
    "POINTS",
    "Candidate",
    "Combine",
    "Extensions",
    "GangEviction",
    "Invalid",
    "Point",
    "Preemptor",
    "Purpose",
    "Rank",
    "VictimRule",
    "Vote",
]

Gradient: TypeAlias = "Callable[[Job, SubJob | None, HyperNode, Purpose], Sequence[Sequence[HyperNode]] | None]"
Rank: TypeAlias = "bool | float | str | tuple[Rank, ...]"  # a sort key; the smallest is first
Candidate: TypeAlias = tuple[Job, Task]  # a possible victim, with its job


class Vote(IntEnum):
    """The vote of a plugin."""

    REJECT = -1
    ABSTAIN = 0
    PERMIT = 1


class Purpose(Enum):
    """The purpose of a search for hypernodes: allocation to free or releasing room, or eviction."""

    ALLOCATE = "allocate"
    EVICT = "evict"


class Invalid(NamedTuple):
    """Why a job cannot be scheduled: reason and message of a condition.

    `retry_when`: the triggers, besides a change of the job or its queue, that may make the job valid; None if any change may.
    """

    reason: str
    message: str
    retry_when: Collection[Trigger] | None = None


class VictimRule(Protocol):
    """Selects the tasks that may be evicted for a preemptor."""

    def __call__(self, preemptor: Task, job: Job, candidates: Sequence[Candidate], /) -> list[Candidate] | None:
        """Return those of `candidates` that may be evicted for `preemptor`, a task of `job`; None to abstain."""


class Preemptor(NamedTuple):
    """What jobs have in common for which pods of other jobs are evicted: the queue, and the priority of their pods."""

    queue: str
    priority: int


@dataclass(frozen=True, slots=True)
class GangEviction:
    """A request of a gang for room in one hypernode, from other queues (`is_reclaim`) or from its own queue."""

    job: Job
    hyper_node: HyperNode
    is_reclaim: bool


class Combine(Enum):
    """How the answers of several plugins become one. Plugins are asked in the order of the configuration, tier by tier."""

    RANKS = "the ranks of all plugins as one key: the first plugin whose ranks differ decides"
    EVERY = "true if all plugins agree"
    ANY = "true if one plugin says so"
    LEAST = "the smallest number"
    FIRST = "the first answer that is not None"
    FIRST_PLUGIN = "only the first plugin is asked"
    VOTE = "a rejection ends the vote; a permission decides unless a rejection follows in the same tier; without votes it is true"
    FIRST_TIER = "only the first tier with an answer counts; its plugins must all agree, or their selections are joined"
    AGREE = "what all plugins of the first tier with a result select"
    SPARE = "true if a plugin of each tier with the selection of the same victims says so"
    UNION = "all answers together"
    SUM = "the sum of the scores"
    PLAN = "kept in the placement plan of each shape"
    CALL = "every plugin is called; there is no answer"


class Point(NamedTuple):
    """An extension point: the flag that switches it for a plugin, empty for none, and how answers combine."""

    flag: str
    combine: Combine


def _point(combine: Combine, flag: str = "") -> Any:  # noqa: ANN401 - the default of a field of any type
    return field(default=None, metadata={"point": Point(flag, combine)})


DEFAULT_OFF: Final = frozenset({"enableHierarchy", "enabledClusterOrder"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Extensions:
    """The extensions of one plugin in one session; None for each extension point that the plugin does not implement.

    Order, the smallest rank first:
        job_order (job), queue_order (queue), task_order (task), sub_job_order (job, sub-job): ranks.
        is_task_order_live: whether a placement may change the ranks of other tasks.
        victim_queue_order (queue, queue of the preemptor): pods of the queue with the smallest rank are evicted first.
    Readiness:
        job_ready (job), sub_job_ready (job, sub-job): whether the placements may be committed.
        job_pipelined (job), sub_job_pipelined (job, sub-job): the same if the pipelined tasks were allocated, as a vote.
        job_valid (job): why the job cannot be scheduled, or None.
        job_starving (job): whether pods may be evicted for the job.
        job_enqueueable (job): whether the job may be enqueued, as a vote.
        job_enqueued (job): called after the job was enqueued.
        is_enqueue_told: whether each refusal by job_enqueueable has a cause with `retry_when`, and no other change can turn an
        abstention into a permission. If false, any change may.
    Quota:
        overused (queue, extra): whether the queue exceeds its share if the vector `extra` is added. Monotone in `extra`.
        allocatable (queue, plan, count): how many of `count` such pods the queue may still use.
        task_allocatable (queue, task): whether the queue may still use this task, by the claims of the task.
        quota_retry_when (job, tasks): the triggers after which the queue may accept more of these pending tasks. Without this
        point, any change is a trigger.
        lowers_lack (moves): whether these evictions and placements, which are applied, lowered what queues lack below their
            deserved amounts; otherwise reclaim and gangreclaim undo them.
        preemptive (queue, amount): whether pods of other queues may be evicted for the vector `amount`.
    Victims, as selections among candidates:
        preemptable: victims in the same queue.
        reclaimable: victims in other queues.
        spares_preempted, spares_reclaimed (job, preemptor): whether `preemptable` or `reclaimable` of this plugin selects no task
        of the job now for other jobs with this queue and priority. Long searches do not count what such jobs could lose.
        unified_evictable: victims for a whole gang. It has no flag.
        victim_tasks (candidates): running tasks that should be evicted without a preemptor.
    Nodes, with arrays over the rows of the node table:
        pre_predicate (task, plan): why no node is feasible for the task in any state, or None.
        predicate: see `plans.Predicate`.
        coupled_predicate (task, plan): refusals that depend on other pods, or None if the task does not depend on other pods.
        job_predicate (job): refusals of all pods of a job, by its PodGroup or queue.
        closed_to (job): refusals of nodes that are locked against `job`, for instance by a reservation. Searches for nodes,
        victims or room exclude all nodes that job_predicate or closed_to refuses, with any code.
        retry_when (task, plan): the triggers, besides the room of nodes, that may change the results of pre_predicate,
        coupled_predicate and closed_to; None if none of them concerns the task. Without this point, any change is a trigger
        for a task that one of them concerns.
        node_order (plan, load): scores of nodes by their own load, see `plans.NodeScore`.
        relative_node_order (plan, candidates): scores that depend only on the shape, the node objects and the set of candidates,
        or None. None must then also be the result for every subset of the candidates.
        batch_node_order (job, task, plan, candidates): scores that may depend on anything, or None.
        best_node (task, plan, scores): the row that is chosen in place of the best score, or None. The score of a node that is
        no candidate is NEVER.
    Hypernodes:
        hyper_node_order (job, sub_job, candidates): a score for each candidate.
        hyper_node_gradient (job, sub_job or None, hypernode, purpose): lists of hypernodes at or below the given one, to be tried
        one list after another; None for no hypernode. A `sub_job` of None stands for the whole job.
    Reservation:
        target_job (jobs): the job for which nodes are reserved, or None.
        reserve_nodes (): locks a further node for the target.
    Events:
        pre_bind (task, row): the steps that binding `task` to the node requires, or None. It is called when the bind is decided.
        moved (move, sign): called after a move was made (1) or undone (−1).
        objection (move): why a placement made just now must be undone, or None. If any plugin implements this point, each move
        consists of one task.
        close (): called at the end of the session.
    """

    job_order: Callable[[Job], Rank] | None = _point(Combine.RANKS, "enableJobOrder")
    queue_order: Callable[[Queue], Rank] | None = _point(Combine.RANKS, "enableQueueOrder")
    task_order: Callable[[Task], Rank] | None = _point(Combine.RANKS, "enableTaskOrder")
    is_task_order_live: bool = False
    sub_job_order: Callable[[Job, SubJob], Rank] | None = _point(Combine.RANKS, "enabledSubJobOrder")
    victim_queue_order: Callable[[Queue, Queue], Rank] | None = _point(Combine.RANKS)

    job_ready: Callable[[Job], bool] | None = _point(Combine.EVERY, "enableJobReady")
    sub_job_ready: Callable[[Job, SubJob], bool] | None = _point(Combine.EVERY, "enabledSubJobReady")
    job_pipelined: Callable[[Job], Vote] | None = _point(Combine.VOTE, "enableJobPipelined")
    sub_job_pipelined: Callable[[Job, SubJob], Vote] | None = _point(Combine.VOTE, "enabledSubJobPipelined")
    job_valid: Callable[[Job], Invalid | None] | None = _point(Combine.FIRST)
    job_starving: Callable[[Job], bool] | None = _point(Combine.FIRST_TIER, "enableJobStarving")
    job_enqueueable: Callable[[Job], Vote] | None = _point(Combine.VOTE, "enableJobEnqueued")
    job_enqueued: Callable[[Job], None] | None = _point(Combine.CALL, "enableJobEnqueued")
    is_enqueue_told: bool = False

    overused: Callable[[Queue, Ints], bool] | None = _point(Combine.ANY, "enabledOverused")
    allocatable: Callable[[Queue, PlacementPlan, int], int] | None = _point(Combine.LEAST, "enabledAllocatable")
    task_allocatable: Callable[[Queue, Task], bool] | None = _point(Combine.EVERY, "enabledAllocatable")
    quota_retry_when: Callable[[Job, Sequence[Task]], Collection[Trigger]] | None = _point(Combine.UNION, "enabledAllocatable")
    preemptive: Callable[[Queue, Ints], bool] | None = _point(Combine.EVERY, "enablePreemptive")
    lowers_lack: Callable[[Sequence[Move]], bool] | None = _point(Combine.EVERY, "enablePreemptive")

    preemptable: VictimRule | None = _point(Combine.AGREE, "enablePreemptable")
    reclaimable: VictimRule | None = _point(Combine.AGREE, "enableReclaimable")
    spares_preempted: Callable[[Job, Preemptor], bool] | None = _point(Combine.SPARE, "enablePreemptable")
    spares_reclaimed: Callable[[Job, Preemptor], bool] | None = _point(Combine.SPARE, "enableReclaimable")
    unified_evictable: Callable[[GangEviction, Sequence[Candidate]], list[Candidate] | None] | None = _point(Combine.AGREE)
    victim_tasks: Callable[[Sequence[Candidate]], Sequence[Candidate]] | None = _point(Combine.FIRST_TIER, "enabledVictim")

    pre_predicate: Callable[[Task, PlacementPlan], str | None] | None = _point(Combine.FIRST, "enablePredicate")
    predicate: Predicate | None = _point(Combine.PLAN, "enablePredicate")
    coupled_predicate: Callable[[Task, PlacementPlan], Sequence[Refusal] | None] | None = _point(Combine.UNION, "enablePredicate")
    retry_when: Callable[[Task, PlacementPlan], Collection[Trigger] | None] | None = _point(Combine.UNION, "enablePredicate")
    node_order: NodeScore | None = _point(Combine.PLAN, "enableNodeOrder")
    relative_node_order: Callable[[PlacementPlan, Bools], Floats | None] | None = _point(Combine.SUM, "enableNodeOrder")
    batch_node_order: Callable[[Job, Task, PlacementPlan, Bools], Floats | None] | None = _point(Combine.SUM, "enableNodeOrder")
    best_node: Callable[[Task, PlacementPlan, Floats], int | None] | None = _point(Combine.FIRST, "enableBestNode")
    job_predicate: Callable[[Job], Sequence[Refusal]] | None = _point(Combine.UNION, "enablePredicate")
    closed_to: Callable[[Job], Sequence[Refusal]] | None = _point(Combine.UNION)

    hyper_node_order: Callable[[Job, SubJob, Sequence[HyperNode]], Floats] | None = _point(Combine.SUM, "enabledHyperNodeOrder")
    hyper_node_gradient: Gradient | None = _point(Combine.FIRST_PLUGIN, "enabledHyperNodeGradient")

    target_job: Callable[[Sequence[Job]], Job | None] | None = _point(Combine.FIRST_PLUGIN, "enableTargetJob")
    reserve_nodes: Callable[[], None] | None = _point(Combine.CALL, "enableReservedNodes")

    pre_bind: Callable[[Task, int], Preparation | None] | None = _point(Combine.UNION)
    moved: Callable[[Move, int], None] | None = _point(Combine.CALL)
    objection: Callable[[Move], str | None] | None = _point(Combine.FIRST)
    close: Callable[[], None] | None = _point(Combine.CALL)

    def only(self, enabled: frozenset[str]) -> Extensions:
        """Return these extensions without the extension points whose flag is not in `enabled`."""
        off: dict[str, Any] = dict.fromkeys(name for name, point in POINTS.items() if point.flag and point.flag not in enabled)
        return replace(self, **off) if off else self


POINTS: Final[Mapping[str, Point]] = {each.name: each.metadata["point"] for each in fields(Extensions) if each.metadata}
FLAGS: Final = DEFAULT_OFF | frozenset(point.flag for point in POINTS.values() if point.flag)
