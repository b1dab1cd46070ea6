"""The extensions of capacity: the order of queues, admission, quotas, and the victims of reclaim."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cmp_to_key
from typing import Any, cast

import numpy as np

from pyroclast.api import records
from pyroclast.api.types import RESOURCE_CLAIMS
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast_scheduler.eviction.progress import QueueLack
from pyroclast_scheduler.eviction.victims import first_to_go
from pyroclast_scheduler.model import demand
from pyroclast_scheduler.model.causes import Cause
from pyroclast_scheduler.model.dimensions import PODS, Ints
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Floats
from pyroclast_scheduler.model.objects import Watch
from pyroclast_scheduler.model.queues import Queue
from pyroclast_scheduler.model.tasks import Task, TaskStatus
from pyroclast_scheduler.model.triggers import QueueUse, Trigger
from pyroclast_scheduler.placement.plans import PlacementPlan
from pyroclast_scheduler.plugins.capacity import tree
from pyroclast_scheduler.plugins.capacity.dra import DeviceQuota
from pyroclast_scheduler.plugins.capacity.gates import let_in
from pyroclast_scheduler.plugins.capacity.reclaiming import Reclaiming
from pyroclast_scheduler.session import enqueue_refusals
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.extension_points import Candidate, Extensions, GangEviction, Preemptor, Rank, Vote
from pyroclast_scheduler.session.plugin_session import PluginSession
from pyroclast_scheduler.session.statement import Move


class Capacity:
    """Queues with capabilities, guarantees and deserved amounts.

    The arguments are:

    - `ancestorReclaimLevel` (0): how many ancestors of a queue may reclaim for the queue. The same number of ancestors protects
      the pods of a queue while these ancestors stay within their deserved amounts.
    - `capacity.DynamicResourceAllocationEnable` (true): whether limits on devices are enforced.
    - `capacity.DRAConsumableCapacityEnable` (false): whether the capacity of devices is limited too.

    With the flag `enableHierarchy`, the queues form a tree.
    """

    watches = (Watch(RESOURCE_CLAIMS, records.ResourceClaim, is_optional=True),)

    def __init__(self, arguments: Arguments) -> None:
        self._levels = arguments.integer("ancestorReclaimLevel", 0, least=0)
        self._is_hierarchical = arguments.is_on("enableHierarchy")
        self._counts_devices = arguments.boolean("capacity.DynamicResourceAllocationEnable", default=True)
        self._counts_capacity = arguments.boolean("capacity.DRAConsumableCapacityEnable", default=False)

    def open(self, session: PluginSession) -> Extensions:
        """Return the extensions of this plugin for one session."""
        make = tree.hierarchical if self._is_hierarchical else tree.flat
        found = make(session.queues, session.total, session.dimensions)
        if found is None:
            session.report.warnings.append(f"plugin capacity: queue {tree.ROOT} is missing, nothing is scheduled until it exists")
            return _NOTHING
        queues = _Queues(session, found, self._levels if self._is_hierarchical else 0)
        extensions = Extensions(
            queue_order=queues.rank,
            victim_queue_order=queues.victim_rank if self._is_hierarchical else None,
            allocatable=queues.allocatable,
            quota_retry_when=queues.quota_retry_when,
            preemptive=queues.preemptive,
            lowers_lack=queues.lowers_lack,
            reclaimable=queues.reclaimable,
            spares_reclaimed=queues.spares,
            unified_evictable=queues.evictable,
            job_enqueueable=queues.enqueueable,
            is_enqueue_told=True,
            moved=queues.moved,
            close=queues.measure,
        )
        quota = DeviceQuota(session, found, has_capacity=self._counts_capacity) if self._counts_devices else None
        if quota is None or quota.is_empty:
            return extensions

        def moved(move: Move, sign: int) -> None:
            queues.moved(move, sign)
            quota.moved(move, sign)

        return replace(
            extensions,
            job_enqueueable=lambda job: (
                Vote.PERMIT if queues.enqueueable(job) is Vote.PERMIT and quota.may_enter(job) else Vote.REJECT
            ),
            job_enqueued=quota.entered,
            moved=moved,
            quota_retry_when=lambda job, tasks: {
                *queues.quota_retry_when(job, tasks),
                *quota.retry_when(job, [task.facts for task in tasks]),
            },
            task_allocatable=quota.allocatable,
        )


def _compare_branches(left: Sequence[tuple[int, Rank]], right: Sequence[tuple[int, Rank]]) -> int:
    """Compare two paths at the first queue in which they differ, or states of one path at the first changed rank."""
    for (row, rank), (other_row, other_rank) in zip(left, right, strict=False):
        if row != other_row:
            return int(cast(Any, rank) > other_rank) - int(cast(Any, rank) < other_rank)
    before, after = (cast(Any, [rank for _, rank in path]) for path in (left, right))
    return int(before > after) - int(before < after)


_branch = cast(Callable[[Sequence[tuple[int, Rank]]], Rank], cmp_to_key(_compare_branches))

_NOTHING = Extensions(
    allocatable=lambda queue, plan, count: 0,  # noqa: ARG005 - the signature of the point
    preemptive=lambda queue, amount: False,  # noqa: ARG005
    reclaimable=lambda preemptor, job, candidates: [],  # noqa: ARG005
    unified_evictable=lambda eviction, candidates: [],  # noqa: ARG005
    job_enqueueable=lambda job: Vote.REJECT,  # noqa: ARG005
)


class _Queues:
    """The tree of queues with sums over their jobs. The sums of a queue include its descendants."""

    def __init__(self, session: PluginSession, found: tree.Tree, levels: int) -> None:
        self._session = session
        self._tree = found
        self._levels = levels
        leaves = [row for row in found.rows.values() if row not in found.outside]
        counted = {each for row in leaves for each in (row, *found.near(row, levels))}
        paths = {name: [each for each in found.path(row) if each in counted] for name, row in found.rows.items()}
        self._lack = QueueLack(session, found.deserved, lambda name: paths.get(name, ()))
        facts = [queue.facts for queue in session.queues.values()]
        self._names = [each.name for each in facts]
        self._most_pods = demand.most_pods(session.queues.values(), session.dimensions)
        # a branch is as old as its oldest leaf
        self._age = [(each.created, each.uid) for each in facts]
        for row in found.outside:
            below = [self._age[leaf] for leaf, above in enumerate(found.ancestors) if row in above and leaf not in found.outside]
            self._age[row] = min(below, default=self._age[row])
        self._allocated, self._inqueue, self._elastic, self._requests = np.zeros((4, *found.limit.shape), dtype=np.float64)
        for name, sums in session.queue_sums.items():
            path = list(found.path(found.rows[name]))
            self._allocated[path] += sums.allocated
            self._inqueue[path] += session.promises.by_queue[name]
            self._elastic[path] += sums.elastic
            self._requests[path] += sums.allocated + sums.pending

        self._let_in = let_in(session, found.rows)
        session.promises.listen(self.promised)

    def measure(self) -> None:
        found, rows = self._session.report.measures, self._tree.rows
        kinds = {
            "allocated": self._allocated,
            "request": self._requests,
            "deserved": self._tree.deserved,
            "inqueue": self._inqueue,
            "real_capacity": self._tree.limit,
        }
        found.amounts.update({kind: {name: table[row] for name, row in rows.items()} for kind, table in kinds.items()})
        queues, dimensions = self._session.queues, self._session.dimensions
        caps = {name: queue.facts.capability for name, queue in queues.items() if queue.facts.capability}
        found.amounts["capacity"] = {name: demand.vector(amounts, dimensions) for name, amounts in caps.items()}
        shares = {name: demand.share(self._allocated[row], self._tree.deserved[row]) for name, row in rows.items()}
        found.numbers["share"] = shares
        found.numbers["overused"] = {name: float(share > 1) for name, share in shares.items()}

    def rank(self, queue: Queue) -> Rank:
        """Return the rank: priority, then leaves, then the smaller share at the level where the branches of two queues differ."""
        row = self._tree.rows[queue.name]
        path = (*self._tree.ancestors[row][::-1][1:], row)
        is_parent = row in self._tree.outside
        levels = path[-1:] if is_parent else path
        return (-queue.facts.priority, is_parent, _branch([(each, self._share_rank(each)) for each in levels]))

    def victim_rank(self, queue: Queue, preemptor: Queue) -> Rank:
        """Return the rank: near relatives of the preemptor's queue lose pods first. The root is as distant as its children."""
        return -max(self._tree.common(self._tree.rows[queue.name], self._tree.rows[preemptor.name]), 1)

    def allocatable(self, queue: Queue, plan: PlacementPlan, count: int) -> int:
        """Return how many of `count` pods of a shape fit into the limits of the queue and its ancestors."""
        row = self._tree.rows[queue.name]
        if not queue.facts.is_open or row in self._tree.outside:
            return 0
        kept = self._let_in.get(row)
        for each in self._tree.path(row):
            taken = self._allocated[each]
            if each == row and kept is not None:
                taken = taken + kept.of_others(plan.shape)
            count = min(count, self._copies(each, taken, plan.request))
        return count

    def _copies(self, row: int, taken: Floats, request: Ints) -> int:
        return demand.copies_within(self._tree.limit[row], taken, request, most_pods=self._most_pods[row])

    def _short(self, row: int, wanted: Floats, request: Floats | Ints) -> list[int]:
        """Return the dimensions of `request` in which `wanted` exceeds the limit of the queue."""
        return demand.short_rows(wanted, self._tree.limit[row], request, most_pods=self._most_pods[row])

    def quota_retry_when(self, job: Job, tasks: Sequence[Task]) -> Sequence[Trigger]:
        """Return the use of those queues on the path that have no room for all of these tasks, one of which was refused.

        If all queues have room now, other jobs used it when the task was refused. Then any queue of the path may be the cause.
        """
        queue = self._session.queues[job.facts.queue]
        row = self._tree.rows[queue.name]
        if not queue.facts.is_open or row in self._tree.outside:
            return (QueueUse(queue.name),)  # other queues may be the cause
        wanted = sum((self._session.plan(task.facts.shape).request for task in tasks), np.zeros_like(self._allocated[row]))
        path = self._tree.path(row)
        full = [
            each
            for each in path
            if (each == row and row in self._let_in) or self._short(each, self._allocated[each] + wanted, wanted)
        ]
        return [QueueUse(self._names[each]) for each in full or path]

    def preemptive(self, queue: Queue, amount: Ints) -> bool:
        """Whether the queue may evict pods of other queues for `amount`, which must fit into the queue's limit.

        The queue, or an ancestor that may reclaim for it, must also stay within its deserved amount of one requested resource.
        """
        row = self._tree.rows[queue.name]
        if not queue.facts.is_open or row in self._tree.outside:
            return False
        if self._short(row, self._allocated[row] + amount, amount):
            return False
        return any(
            demand.is_partly_within(self._allocated[each] + amount, self._tree.deserved[each], amount)
            for each in (row, *self._tree.near(row, self._levels))
        )

    def reclaimable(self, preemptor: Task, job: Job, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return pods of queues that exceed their deserved amounts, as long as they do and their guarantee is respected."""
        mine = self._tree.inside(job.facts.queue)
        if mine is None:
            return []
        request = self._session.plan(preemptor.facts.shape).request
        rule = Reclaiming(self._tree, self._allocated, self._levels, mine, request)
        ordered = first_to_go(self._session, candidates, self._session.queues[job.facts.queue])
        return [each for each in ordered if self._goes(rule, each)]

    def lowers_lack(self, moves: Sequence[Move]) -> bool:
        """Whether `moves`, which are applied, lowered what queues, and ancestors that may reclaim for them, lack."""
        return self._lack.falls(moves, self._allocated)

    def spares(self, job: Job, preemptor: Preemptor) -> bool:
        """Whether the queue of `job` deserves some of each resource that the job uses, and has no more than that."""
        del preemptor
        row = self._tree.rows.get(job.facts.queue)
        if row is None:
            return True
        used = job.allocated > 0
        used[PODS] = False
        deserved, has = self._tree.deserved[row][used], self._allocated[row][used]
        return bool(((deserved >= demand.EPSILON) & (has <= deserved)).all())

    def evictable(self, eviction: GangEviction, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return victims for a whole gang: all of the same queue, or what other queues have beyond their deserved amounts."""
        if not eviction.is_reclaim:
            return list(candidates)
        mine = self._tree.inside(eviction.job.facts.queue)
        if mine is None:
            return []
        rule = Reclaiming(self._tree, self._allocated, 0, mine, None)
        return [each for each in candidates if self._goes(rule, each)]

    def enqueueable(self, job: Job) -> Vote:
        """Whether the minimum of the job fits into the limits of its queue and the ancestors, beside earlier enqueued jobs."""
        session, row = self._session, self._tree.rows[job.facts.queue]
        if row in self._tree.outside:
            text = self._tree.outside[row]
            retry_when = frozenset({QueueUse(job.facts.queue)})  # other queues may be the cause
            session.refuse(job, Cause(PendingReason.NOT_LET_IN, lambda: text, retry_when=retry_when))
            return Vote.REJECT
        if not session.queues[job.facts.queue].facts.is_open:
            session.refuse(job, enqueue_refusals.closed(session, job.facts.queue))
            return Vote.REJECT
        minimum = job.facts.minimum(session.dimensions)
        if minimum is None:
            return Vote.PERMIT
        for each in self._tree.path(row):
            wanted = minimum + self._allocated[each] + self._inqueue[each] - self._elastic[each]
            short = self._short(each, wanted, minimum)
            if short:
                has, coming = self._allocated[each], self._inqueue[each] - self._elastic[each]
                limit = self._tree.limit[each]
                name = self._names[each]
                session.refuse(
                    job, enqueue_refusals.by_queue(session, job, name, short, limit=limit, allocated=has, promised=coming)
                )
                return Vote.REJECT
        return Vote.PERMIT

    def promised(self, queue: str, amount: Floats) -> None:
        """Change what is kept for gangs in the queue and in all its ancestors."""
        self._inqueue[list(self._tree.path(self._tree.rows[queue]))] += amount

    def moved(self, move: Move, sign: int) -> None:
        row = self._tree.rows.get(move.job.facts.queue)
        if row is not None:
            if row in self._let_in and move.status is not TaskStatus.RELEASING:
                self._let_in[row].placed(move.plan.shape, move.amount * sign)
            self._allocated[list(self._tree.path(row))] += move.change * sign

    def _goes(self, rule: Reclaiming, candidate: Candidate) -> bool:
        owner, task = candidate
        row = self._tree.rows.get(owner.facts.queue)
        return row is not None and rule.takes(row, self._session.plan(task.facts.shape).request)

    def _share_rank(self, row: int) -> Rank:
        """Return the rank of one queue: the smaller share first, then queues with deserved amounts, then the older queue."""
        deserved = self._tree.deserved[row]
        is_empty = not np.delete(deserved >= demand.EPSILON, PODS).any()
        share = 1.0 if is_empty else demand.share(self._allocated[row], deserved)
        return (share, is_empty, *self._age[row])
