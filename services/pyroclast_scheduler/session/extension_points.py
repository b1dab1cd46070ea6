"""The extension points of a session: where plugins take part, what they are asked and what they answer.

Every point is a field of `Extensions`. The rule by which the answers of several plugins become one stands in `rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.hypernodes import HyperNode
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools, Floats
from pyroclast_scheduler.model.queues import Queue
from pyroclast_scheduler.model.reasons import Refusal
from pyroclast_scheduler.model.retry_conditions import Trigger
from pyroclast_scheduler.model.subjobs import SubJob
from pyroclast_scheduler.model.tasks import Task
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
    "Purpose",
    "Rank",
    "VictimRule",
    "Vote",
]

Rank: TypeAlias = "bool | float | str | tuple[Rank, ...]"  # what orders compare: the smaller goes first
Candidate: TypeAlias = tuple[Job, Task]  # a task that might have to go, with its job


class Vote(IntEnum):
    """How a plugin votes."""

    REJECT = -1
    ABSTAIN = 0
    PERMIT = 1


class Purpose(Enum):
    """What hypernodes are searched for: room that is there or coming, or room that evictions would make."""

    ALLOCATE = "allocate"
    EVICT = "evict"


class Invalid(NamedTuple):
    """Why a job cannot be worked on: a condition's reason and message.

    `retry_when`: what may change that, beside a change of the job and its queue; None: any change may.
    """

    reason: str
    message: str
    retry_when: Collection[Trigger] | None = None


class VictimRule(Protocol):
    """Which tasks may go for a preemptor."""

    def __call__(self, preemptor: Task, job: Job, candidates: Sequence[Candidate], /) -> list[Candidate] | None:
        """Those of `candidates` that may go for `preemptor`, a task of `job`; None to abstain."""


@dataclass(frozen=True, slots=True)
class GangEviction:
    """The wish of a whole gang for room in one part of the network; `is_reclaim`: at the cost of other queues, not its own."""

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
    "preemptable": "enablePreemptable",
    "reclaimable": "enableReclaimable",
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
    """What one plugin registers in one session; None where it takes no part.

    Order, smaller ranks first:
        job_order, queue_order, task_order, sub_job_order (job, sub-job), victim_queue_order (queue, queue of the preemptor): the
        queue with the smaller rank loses its pods first. is_task_order_live: ranks of tasks change as others get places.
    Readiness:
        job_ready, sub_job_ready: may placements be kept? job_pipelined, sub_job_pipelined: would they, were promised room there?
        job_valid: why the job cannot be worked on, or None. job_starving: may it take places from others?
        job_enqueueable: may it enter? job_enqueued: it did. is_enqueue_told: the cause of each refusal tells by `retry_when` what
        may change it, and nothing else has the plugin let a job in that it had no say on. Without it any change may.
    Quota:
        overused (queue, extra): has the queue more than its share, if it took the vector `extra` too? Monotone in `extra`.
        allocatable (queue, plan, count): how many of `count` such pods the queue may still take.
        task_allocatable (queue, task): whether the queue may still take that very task, by what its claims ask for.
        quota_retry_when (job, tasks): what may let the queue take more of these waiting tasks. Without it any change may.
        preemptive (queue, amount): may the queue take places from others for the vector `amount`?
    Victims:
        preemptable (same queue), reclaimable (other queues), unified_evictable (for a whole gang; no flag), victim_tasks: those
        of the running candidates that should go without anybody asking for their place.
    Nodes, all arrays over the rows of the node table:
        pre_predicate (task, plan): why the task fits no node whatever they have, or None. predicate: see `plans.Predicate`.
        coupled_predicate (task, plan): refusals that depend on where other pods are, or None if that does not matter here.
        retry_when (task, plan): what may change what pre_predicate, coupled_predicate and closed_to say, beside the room of the
        node itself; None: they are not concerned with the task. Without it any change may, where one of them is.
        node_order (plan, load): scores of nodes from their own load, see `plans.NodeScore`.
        relative_node_order (plan, candidates): scores that depend on the shape, the node objects and which nodes are candidates,
        and on nothing else, or None, which then holds for any part of these candidates too. batch_node_order (job, task, plan,
        candidates): scores that may depend on anything, or None.
        best_node (task, plan, scores): the row to take instead of the best score, or None; NEVER where a node is no candidate.
        job_predicate (job): refusals of all pods of a job, by what its PodGroup or queue says. closed_to (job): nodes that are
        locked against `job`, for instance because they are reserved for another. No search for nodes, victims or room sees
        nodes that one of these refuses, whatever the code.
    Hypernodes:
        hyper_node_order (job, sub_job, candidates): a score for each. hyper_node_gradient (job, sub_job or None for the whole
        job, hypernode, purpose): which hypernodes below it to try, in lists that are tried one after another; None: none at all.
    Reservation:
        target_job (jobs): which of them should be reserved for, or None. reserve_nodes (): lock another node for it.
    Events:
        pre_bind (task, row): what binding `task` to that node takes beside the binding, or None; asked when it is decided.
        moved (move, sign): a move was made (1) or undone (−1). objection (move): why a place given or promised just now is taken
        back, or None; where any plugin has this point, each move is of one task. close (): the session ends.
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

    preemptable: VictimRule | None = None
    reclaimable: VictimRule | None = None
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
        """These without the points whose flag is not among `enabled`."""
        off: dict[str, Any] = {
            name: None for name, flag in _FLAG_OF.items() if flag not in enabled and getattr(self, name) is not None
        }
        return replace(self, **off) if off else self
