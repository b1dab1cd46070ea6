"""The measures by which every eviction is a step forward, so that with constant demand evictions end.

The problem: a queue may reclaim while it is within its deserved amount of one resource, and may lose pods while it is above that
of another. Two queues can be both, and take the same room from each other for ever. To ask for all resources at once is not
enough: a pod that frees more than is asked for leaves its queue below what it deserves, and that queue takes back. In one queue,
two jobs of equal priority do the same to each other if no plugin orders them.

Reclaim and gangreclaim must lower the sum over queues and resources of max(0, deserved - allocated), in parts of the cluster.
Preempt takes from a lower level of (priority that the API server gave, priority of the task), or in the same level from a job
that keeps at least the share that the preemptor gets. So does reclaim if no plugin knows what queues deserve. Placing pods makes
no measure worse. The proof and its bound are in `docs/decisions/0017-evictions-end.md`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from pyroclast_scheduler.model import demand
from pyroclast_scheduler.model.demand import EPSILON
from pyroclast_scheduler.model.dimensions import PODS
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Floats
from pyroclast_scheduler.model.tasks import ALLOCATED, TaskStatus
from pyroclast_scheduler.session.plugin_session import PluginSession
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.session.statement import Move

_HAVING: Final = ALLOCATED | {TaskStatus.PIPELINED}
_LEAST: Final = 1e-9
"""The part of a resource of the cluster by which the measure must fall; less would be a rounding error."""


def is_step_forward(session: Session, moves: Sequence[Move], *, is_reclaim: bool) -> bool:
    """Whether the evictions and placements of `moves`, which are applied, improve the measure of the action."""
    if not any(map(_is_eviction, moves)):
        return True
    is_less = session.lowers_lack(moves) if is_reclaim else None
    return outranks(session, moves) if is_less is None else is_less


def outranks(session: Session, moves: Sequence[Move]) -> bool:
    """Whether the placed pods of `moves`, which are applied, may take from the evicted ones by priorities and shares."""
    is_own = len({move.job.facts.key for move in moves}) == 1  # in one job, its own task priorities decide alone
    gone, placed = (
        {
            (move.job.facts.key, (0 if is_own else move.job.facts.granted(task.facts), task.facts.priority)): move.job
            for move in moves
            for task in move.tasks
            if is_gone(move)
        }
        for is_gone in (_is_eviction, lambda move: not _is_eviction(move))
    )
    levels = {key: key[1] for key in gone | placed}
    for key, job in placed.items():
        level = levels[key]
        if any(levels[other] > level for other in gone):
            return False
        equal = {other: owner for other, owner in gone.items() if levels[other] == level}
        if equal and (
            key in equal or min(_share(session, owner, level[1]) for owner in equal.values()) < _share(session, job, level[1])
        ):
            return False
    return True


def _is_eviction(move: Move) -> bool:
    return move.status is TaskStatus.RELEASING


def _share(session: Session, job: Job, priority: int) -> float:
    """Return the dominant share of the pods of `job` with that priority."""
    shapes = Counter(task.facts.shape for task in job.tasks if task.facts.priority == priority and task.status in _HAVING)
    vectors = [session.dimensions.vector(shape.request) * count for shape, count in shapes.items()]
    return demand.share(np.sum(vectors, axis=0), session.total) if vectors else 0.0


class QueueLack:
    """What queues lack below the amounts that they deserve, by one plugin.

    A queue deserves nothing that it cannot use: where even its smallest pod exceeds the deserved amount, the amount counts as 0.

    Args:
        session: the session.
        deserved: the deserved amounts, (rows, dimensions), which must not change in the session.
        path: returns the rows that count a pod of the queue with this name: its own, and those of its ancestors.
    """

    def __init__(self, session: PluginSession, deserved: Floats, path: Callable[[str], Sequence[int]]) -> None:
        self._session = session
        self._deserved = deserved
        self._path = path
        self._least: Floats | None = None

    def falls(self, moves: Sequence[Move], allocated: Floats) -> bool:
        """Whether `moves` lowered the measure. `allocated`: the amounts after them, (rows, dimensions)."""
        # 1. the change of each row, and the smallest pod that is known there
        changes: dict[int, Floats] = {}
        least: dict[int, Floats] = {}
        nothing, endless = np.zeros(allocated.shape[1]), np.full(allocated.shape[1], np.inf)
        for move in moves:
            request = np.where(move.plan.request > 0, move.plan.request, np.inf)
            for row in self._path(move.job.facts.queue):
                changes[row] = changes.get(row, nothing) + move.change
                least[row] = np.minimum(least.get(row, endless), request)
        if not changes:
            return True
        rows, total = list(changes), self._session.total
        change, now, deserved = np.array(list(changes.values())), allocated[rows], self._deserved[rows]
        counted = (change != 0) & (total > 0) & (deserved >= EPSILON)
        counted[:, PODS] = False
        # 2. amounts that no pod of the queue fits into do not count; other pods are read only if these do not tell
        is_usable = np.array([least[row] for row in rows]) <= deserved
        if (counted & ~is_usable).any():
            is_usable |= self._smallest()[rows] <= deserved
        counted &= is_usable
        # 3. the difference
        lack = np.maximum(deserved - now, 0) - np.maximum(deserved - (now - change), 0)
        return bool(np.where(counted, lack / np.maximum(total, 1), 0.0).sum() < -_LEAST)

    def _smallest(self) -> Floats:
        """Return the smallest request of any pod by row and dimension, infinite where no pod requests the resource."""
        if self._least is None:
            session = self._session
            self._least = np.full(self._deserved.shape, np.inf)
            all_jobs = session.snapshot.all_jobs.values()
            shapes = {(facts.queue, id(task.shape)): task.shape for facts in all_jobs for task in facts.tasks}
            for (queue, _), shape in shapes.items():
                request = session.dimensions.vector(shape.request)
                for row in self._path(queue):
                    self._least[row] = np.minimum(self._least[row], np.where(request > 0, request, np.inf))
        return self._least
