"""Plugin drf: the job, or with a hierarchy the branch of queues, with the smallest dominant share is served first.

Source: the rules of `docs/design/hdrf.md` of Volcano, as its code applies them. The amounts of a branch are the sum over its
children. Each child is scaled down to the smallest dominant share of the unsaturated children. A saturated child therefore does
not hold back the branch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cmp_to_key
from typing import Final, NamedTuple, cast

import numpy as np

from pyroclast.api import keys
from pyroclast_scheduler.model import demand
from pyroclast_scheduler.model.demand import past_share
from pyroclast_scheduler.model.dimensions import Dimensions, Ints
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools, Floats
from pyroclast_scheduler.model.queues import Queue, QueueFacts
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.extension_points import Candidate, Extensions, Rank
from pyroclast_scheduler.session.plugin_session import PluginSession
from pyroclast_scheduler.session.statement import Move

_ROOT: Final = "root"
_SAME: Final = 1e-6


class Leaf(NamedTuple):
    """A job: its queue, its allocated amounts and its total request, in stored units."""

    key: str
    queue: str
    allocated: Floats
    request: Floats


def path_of(queue: QueueFacts) -> list[tuple[str, float]]:
    """Return the branch of a queue below the root as names with weights, by its annotations. A malformed weight counts as 1."""
    annotations = queue.record.metadata.annotations
    path = [name for name in annotations.get(keys.HIERARCHY, "").split("/") if name]
    weights = annotations.get(keys.HIERARCHY_WEIGHTS, "").split("/")
    named = [(name, _weight(weights[at]) if at < len(weights) else 1.0) for at, name in enumerate(path)]
    return named[1:] if named and named[0][0] == _ROOT else named


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        return 1.0
    return weight if weight >= 1 else 1.0  # NaN becomes 1 too


@dataclass(slots=True)
class _Branch:
    """An inner node of the tree. `leaves`: rows of the arrays of jobs."""

    weight: float = 1.0
    children: dict[str, _Branch] = field(default_factory=dict)
    leaves: list[int] = field(default_factory=list)
    allocated: Floats = field(default_factory=lambda: np.zeros(0))
    share: float = 0.0
    is_saturated: bool = True


class Hierarchy:
    """The tree of `queues` with `leaves`. `total`: the amounts of the cluster as a vector in stored units."""

    def __init__(self, queues: Iterable[QueueFacts], leaves: Sequence[Leaf], total: Floats) -> None:
        self._total = total
        self._root = _Branch()
        self._paths: dict[str, list[_Branch]] = {}
        for queue in queues:
            path = [self._root]
            for name, weight in path_of(queue):
                path.append(path[-1].children.setdefault(name, _Branch(weight)))
            self._paths[queue.name] = path
        self._rows = {leaf.key: row for row, leaf in enumerate(leaves)}
        shape = (len(leaves), len(total))
        self._allocated = np.array([leaf.allocated for leaf in leaves], dtype=np.float64).reshape(shape)
        self._request = np.array([leaf.request for leaf in leaves], dtype=np.float64).reshape(shape)
        for row, leaf in enumerate(leaves):
            self._paths[leaf.queue][-1].leaves.append(row)
        self._is_current = False

    def add(self, job: str, change: Floats | Ints) -> None:
        """Add `change` to the allocated amounts of `job`."""
        self._allocated[self._rows[job]] += change
        self._is_current = False

    def compare(self, left: str, right: str) -> int:
        """Return a negative number if queue `left` is served first, a positive one for queue `right`, 0 if neither."""
        self._update()
        for one, other in zip(self._paths[left], self._paths[right], strict=False):
            if one.is_saturated != other.is_saturated:
                return 1 if one.is_saturated else -1
            mine, theirs = one.share / one.weight, other.share / other.weight
            if mine != theirs:
                return -1 if mine < theirs else 1
        return 0

    def _update(self) -> None:
        if self._is_current:
            return
        allocated, request, total = self._allocated, self._request, self._total
        is_demanding = allocated.sum(axis=0) < total
        has = allocated >= demand.EPSILON
        is_full = (request > 0) & (allocated >= request)
        is_stuck = ~is_demanding & (request != 0)
        saturated = (has & (is_full | is_stuck)).any(axis=1)
        known = total >= demand.EPSILON
        shares = (allocated[:, known] / total[known]).max(axis=1, initial=0.0)
        self._fold(self._root, allocated, shares, saturated)
        self._is_current = True

    def _fold(self, branch: _Branch, allocated: Floats, shares: Floats, saturated: Bools) -> None:
        for child in branch.children.values():
            self._fold(child, allocated, shares, saturated)
        below = list(branch.children.values())
        amounts = np.concatenate([allocated[branch.leaves], *(child.allocated[None] for child in below)])
        child_shares = np.concatenate([shares[branch.leaves], [child.share for child in below]])
        is_saturated = np.concatenate(
            [saturated[branch.leaves], np.array([child.is_saturated for child in below], dtype=np.bool_)]
        )
        counted = child_shares > 0
        least = min(1.0, child_shares[counted & ~is_saturated].min(initial=1.0))
        scale = np.where(is_saturated[counted], 1.0, least / child_shares[counted])
        branch.allocated = (amounts[counted] * scale[:, None]).sum(axis=0)
        branch.share = demand.share(branch.allocated, self._total)
        branch.is_saturated = bool(is_saturated.all())


class Drf:
    """Dominant resource fairness. With the flag `enableHierarchy`, queues are compared by the tree in their annotations.

    Argument `pastUsageWeight` (0): the weight of the submitter's past usage in the queue, which is added to the share of a job.
    """

    def __init__(self, arguments: Arguments) -> None:
        self._is_hierarchical = arguments.is_on("enableHierarchy")
        self._past_weight = arguments.number("pastUsageWeight", 0.0, least=0, most=100)

    def open(self, session: PluginSession) -> Extensions:
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

    def __init__(self, session: PluginSession) -> None:
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
        found = self._allocated.get(job.facts.key)
        return job.facts.allocated(self._session.dimensions) if found is None else found


class _WithPast:
    """The shares of jobs plus the weighted past usage of their submitters in the queue, as a share of the cluster."""

    def __init__(self, session: PluginSession, shares: _Shares, weight: float) -> None:
        self._session, self._shares, self._weight = session, shares, weight
        self._past: dict[tuple[str, str], float] = {}

    def of(self, job: Job) -> float:
        user = job.facts.group.metadata.annotations.get(keys.SUBMITTED_BY, "")
        slot = queue, _ = job.facts.queue, user
        if slot not in self._past:
            held = self._session.queues[queue].facts.past.users.get(user, {}) if user else {}
            self._past[slot] = past_share(held, self._session.total, self._session.dimensions)
        return self._shares.of(job) + self._weight * self._past[slot]


class _Branches:
    def __init__(self, session: PluginSession) -> None:
        self._session = session
        leaves = [_leaf(job, session.dimensions) for job in session.all_jobs().values()]
        self._tree = Hierarchy([queue.facts for queue in session.queues.values()], leaves, session.total)

    def rank(self, queue: Queue) -> Rank:
        return cast(Rank, cmp_to_key(self._tree.compare)(queue.name))

    def moved(self, move: Move, sign: int) -> None:
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


def _leaf(job: Job, dimensions: Dimensions) -> Leaf:
    allocated = job.allocated
    return Leaf(job.facts.key, job.facts.queue, allocated, allocated + job.facts.pending(dimensions))
