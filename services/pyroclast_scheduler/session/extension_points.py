"""The extension points of a session: when a plugin is called, with which arguments, and what its result means.

Each extension point is a field of `Extensions`. The module `rules` combines the results of several plugins.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
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
    "Candidate",
    "Extensions",
    "GangEviction",
    "Invalid",
    "Preemptor",
    "Purpose",
    "Rank",
    "VictimRule",
    "Vote",
]

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
    """What jobs have in common for which pods of other jobs are evicted: the name of their queue, and their priority."""

    queue: str
    priority: int


@dataclass(frozen=True, slots=True)
class GangEviction:
    """A request of a whole gang for room in one hypernode.

    `is_reclaim`: victims are in other queues, else in the gang's own queue.
    """

    job: Job
    hyper_node: HyperNode
    is_reclaim: bool


_FLAG_OF: Final = {
    "job_order": "enableJobOrder",
    "queue_order": "enableQueueOrder",
    "task_order": "enableTaskOrder",
    "sub_job_order": "enabledSubJobOrder",
    "job_ready": "enableJobReady",
    "sub_job_ready": "enabledSubJobReady",
    "job_pipelined": "enableJobPipelined",
    "sub_job_pipelined": "enabledSubJobPipelined",
    "job_starving": "enableJobStarving",
    "job_enqueueable": "enableJobEnqueued",
    "job_enqueued": "enableJobEnqueued",
    "overused": "enabledOverused",
    "task_allocatable": "enabledAllocatable",
    "allocatable": "enabledAllocatable",
    "preemptive": "enablePreemptive",
    "lowers_lack": "enablePreemptive",
    "preemptable": "enablePreemptable",
    "reclaimable": "enableReclaimable",
    "spares_preempted": "enablePreemptable",
    "spares_reclaimed": "enableReclaimable",
    "victim_tasks": "enabledVictim",
    "pre_predicate": "enablePredicate",
    "predicate": "enablePredicate",
    "job_predicate": "enablePredicate",
    "coupled_predicate": "enablePredicate",
    "retry_when": "enablePredicate",
    "quota_retry_when": "enabledAllocatable",
    "node_order": "enableNodeOrder",
    "relative_node_order": "enableNodeOrder",
    "batch_node_order": "enableNodeOrder",
    "best_node": "enableBestNode",
    "hyper_node_order": "enabledHyperNodeOrder",
    "hyper_node_gradient": "enabledHyperNodeGradient",
    "target_job": "enableTargetJob",
    "reserve_nodes": "enableReservedNodes",
}
DEFAULT_OFF: Final = frozenset({"enableHierarchy", "enabledClusterOrder"})
FLAGS: Final = DEFAULT_OFF | frozenset(_FLAG_OF.values())


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

    job_order: Callable[[Job], Rank] | None = None
    queue_order: Callable[[Queue], Rank] | None = None
    task_order: Callable[[Task], Rank] | None = None
    is_task_order_live: bool = False
    sub_job_order: Callable[[Job, SubJob], Rank] | None = None
    victim_queue_order: Callable[[Queue, Queue], Rank] | None = None

    job_ready: Callable[[Job], bool] | None = None
    sub_job_ready: Callable[[Job, SubJob], bool] | None = None
    job_pipelined: Callable[[Job], Vote] | None = None
    sub_job_pipelined: Callable[[Job, SubJob], Vote] | None = None
    job_valid: Callable[[Job], Invalid | None] | None = None
    job_starving: Callable[[Job], bool] | None = None
    job_enqueueable: Callable[[Job], Vote] | None = None
    job_enqueued: Callable[[Job], None] | None = None
    is_enqueue_told: bool = False

    overused: Callable[[Queue, Ints], bool] | None = None
    allocatable: Callable[[Queue, PlacementPlan, int], int] | None = None
    task_allocatable: Callable[[Queue, Task], bool] | None = None
    quota_retry_when: Callable[[Job, Sequence[Task]], Collection[Trigger]] | None = None
    preemptive: Callable[[Queue, Ints], bool] | None = None
    lowers_lack: Callable[[Sequence[Move]], bool] | None = None

    preemptable: VictimRule | None = None
    reclaimable: VictimRule | None = None
    spares_preempted: Callable[[Job, Preemptor], bool] | None = None
    spares_reclaimed: Callable[[Job, Preemptor], bool] | None = None
    unified_evictable: Callable[[GangEviction, Sequence[Candidate]], list[Candidate] | None] | None = None
    victim_tasks: Callable[[Sequence[Candidate]], Sequence[Candidate]] | None = None

    pre_predicate: Callable[[Task, PlacementPlan], str | None] | None = None
    predicate: Predicate | None = None
    coupled_predicate: Callable[[Task, PlacementPlan], Sequence[Refusal] | None] | None = None
    retry_when: Callable[[Task, PlacementPlan], Collection[Trigger] | None] | None = None
    node_order: NodeScore | None = None
    relative_node_order: Callable[[PlacementPlan, Bools], Floats | None] | None = None
    batch_node_order: Callable[[Job, Task, PlacementPlan, Bools], Floats | None] | None = None
    best_node: Callable[[Task, PlacementPlan, Floats], int | None] | None = None
    job_predicate: Callable[[Job], Sequence[Refusal]] | None = None
    closed_to: Callable[[Job], Sequence[Refusal]] | None = None

    hyper_node_order: Callable[[Job, SubJob, Sequence[HyperNode]], Floats] | None = None
    hyper_node_gradient: Callable[[Job, SubJob | None, HyperNode, Purpose], Sequence[Sequence[HyperNode]] | None] | None = None

    target_job: Callable[[Sequence[Job]], Job | None] | None = None
    reserve_nodes: Callable[[], None] | None = None

    pre_bind: Callable[[Task, int], Preparation | None] | None = None
    moved: Callable[[Move, int], None] | None = None
    objection: Callable[[Move], str | None] | None = None
    close: Callable[[], None] | None = None

    def only(self, enabled: frozenset[str]) -> Extensions:
        """Return these extensions without the extension points whose flag is not in `enabled`."""
        off: dict[str, Any] = {
            name: None for name, flag in _FLAG_OF.items() if flag not in enabled and getattr(self, name) is not None
        }
        return replace(self, **off) if off else self
