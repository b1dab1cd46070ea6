"""The extensions of drf: the job with the smallest dominant share is served first.

With a hierarchy, the branch of queues with the smallest weighted share is served first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cmp_to_key
from typing import Final, cast

from pyroclast.api import keys
from pyroclast_scheduler.model import demand
from pyroclast_scheduler.model.dimensions import Dimensions
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Floats
from pyroclast_scheduler.model.past_shares import past_share
from pyroclast_scheduler.model.queues import Queue
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.plugins.drf.hierarchy import Hierarchy, Leaf
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.extension_points import Candidate, Extensions, Rank
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.session.statement import Move

_SAME: Final = 1e-6


class Drf:
    """Dominant resource fairness. With the flag `enableHierarchy`, queues are compared by the tree in their annotations.

    Argument `pastUsageWeight` (0): the weight of the submitter's past usage in the queue, which is added to the share of a job.
    """

    def __init__(self, arguments: Arguments) -> None:
        self._is_hierarchical = arguments.is_on("enableHierarchy")
        self._past_weight = arguments.number("pastUsageWeight", 0.0, least=0, most=100)

    def open(self, session: Session) -> Extensions:
        """Return the extensions of this plugin for one session."""
        shares = _Shares(session)
        job_order = _WithPast(session, shares, self._past_weight).of if self._past_weight else shares.of
        if not self._is_hierarchical:
            return Extensions(job_order=job_order, preemptable=shares.victims, moved=shares.moved, close=shares.measure)
        branches = _Branches(session)

        def moved(move: Move, sign: int) -> None:
            shares.moved(move, sign)
            branches.moved(move, sign)

        return Extensions(
            job_order=job_order,
            queue_order=branches.rank,
            preemptable=shares.victims,
            reclaimable=branches.victims,
            moved=moved,
            close=shares.measure,
        )


class _Shares:
    """The dominant shares of jobs, including pipelined tasks."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._total = session.total
        self._allocated: dict[str, Floats] = {}
        self._shares: dict[str, float] = {}

    def of(self, job: Job) -> float:
        key = job.facts.key
        found = self._shares.get(key)
        if found is None:
            found = self._shares[key] = demand.share(self._has(job), self._total)
        return found

    def measure(self) -> None:
        self._session.report.measures.shares.update({job.facts.key: self.of(job) for job in self._session.jobs.values()})

    def moved(self, move: Move, sign: int) -> None:
        self._allocated[move.job.facts.key] = self._has(move.job) + move.change * sign
        self._shares.pop(move.job.facts.key, None)

    def victims(self, preemptor: Task, job: Job, candidates: Sequence[tuple[Job, Task]]) -> list[tuple[Job, Task]]:
        """Return tasks of jobs that keep at least the share which the preemptor's job would have."""
        mine = demand.share(self._has(job) + self._session.plan(preemptor.facts.shape).request, self._total)
        left: dict[str, Floats] = {}
        chosen: list[tuple[Job, Task]] = []
        for owner, task in candidates:
            key = owner.facts.key
            left[key] = left.get(key, self._has(owner)) - self._session.plan(task.facts.shape).request
            theirs = demand.share(left[key], self._total)
            if mine < theirs or abs(mine - theirs) <= _SAME:
                chosen.append((owner, task))
        return chosen

    def _has(self, job: Job) -> Floats:
        """Return the allocated amounts of `job`, including pipelined tasks."""
        found = self._allocated.get(job.facts.key)
        return job.facts.allocated(self._session.dimensions) if found is None else found


class _WithPast:
    """The shares of jobs plus the weighted past usage of their submitters in the queue, as a share of the cluster."""

    def __init__(self, session: Session, shares: _Shares, weight: float) -> None:
        self._session, self._shares, self._weight = session, shares, weight
        self._past: dict[tuple[str, str], float] = {}

    def of(self, job: Job) -> float:
        user = job.facts.group.metadata.annotations.get(keys.SUBMITTED_BY, "")
        return self._shares.of(job) + self._weight * self._past_of(job.facts.queue, user)

    def _past_of(self, queue: str, user: str) -> float:
        found = self._past.get((queue, user))
        if found is None:
            held = self._session.queues[queue].facts.past.users.get(user, {}) if user else {}
            found = self._past[queue, user] = past_share(held, self._session.total, self._session.dimensions)
        return found


class _Branches:
    """The tree of queues with all jobs."""

    def __init__(self, session: Session) -> None:
        self._session = session
        leaves = [_leaf(job, session.dimensions) for job in session.all_jobs().values()]
        self._tree = Hierarchy([queue.facts for queue in session.queues.values()], leaves, session.total)

    def rank(self, queue: Queue) -> Rank:
        """Return the rank: the branch with the smaller weighted share first."""
        return cast(Rank, _by_branch(self._tree)(queue.name))

    def moved(self, move: Move, sign: int) -> None:
        """Update the tree of queues after a placement or an eviction."""
        self._tree.add(move.job.facts.key, move.change * sign)

    def victims(self, preemptor: Task, job: Job, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return tasks whose queue would still be served after the queue of `job` without them. Each task is judged alone."""
        request, mine, tree = self._session.plan(preemptor.facts.shape).request, job.facts.queue, self._tree
        chosen: list[Candidate] = []
        tree.add(job.facts.key, request)
        for owner, task in candidates:
            taken = self._session.plan(task.facts.shape).request
            tree.add(owner.facts.key, -taken)
            if tree.compare(mine, owner.facts.queue) < 0:
                chosen.append((owner, task))
            tree.add(owner.facts.key, taken)
        tree.add(job.facts.key, -request)
        return chosen


def _by_branch(tree: Hierarchy) -> Callable[[str], object]:
    return cmp_to_key(tree.compare)


def _leaf(job: Job, dimensions: Dimensions) -> Leaf:
    allocated = job.allocated
    return Leaf(job.facts.key, job.facts.queue, allocated, allocated + job.facts.pending(dimensions))
