"""Freeable amounts: what evictions could free on each node at most. A node that they exclude is of no use in any state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Final

import numpy as np

from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools
from pyroclast_scheduler.model.pod_columns import PodColumns
from pyroclast_scheduler.placement.plans import PlacementPlan
from pyroclast_scheduler.session.extension_points import Preemptor
from pyroclast_scheduler.session.session import Session

_MOST_KEPT: Final = 16  # arrays of all nodes, the last used ones


class Freeable:
    """The requests of the pods on each node that one action may evict, (dimensions, nodes), not to be changed by the caller.

    `may_lose`: whether pods of a job may be evicted for other jobs with that queue and priority in the present state.
    `is_reclaim`: whether the action evicts pods of other queues, else of the same queue.
    """

    def __init__(self, session: Session, may_lose: Callable[[Job, Preemptor], bool], *, is_reclaim: bool) -> None:
        self._session = session
        self._may_lose = may_lose
        self._is_reclaim = is_reclaim
        self._of_last_queue: tuple[str, Ints] | None = None
        self._of_losing: dict[Preemptor, tuple[int, Ints]] = {}  # with the state

    @cached_property
    def _pods(self) -> PodColumns:
        pods = self._session.features.pods
        pods.update(self._session.snapshot.residents, self._session.dimensions)
        return pods

    @cached_property
    def _by_queue(self) -> Mapping[str, list[str]]:
        """The keys of the jobs whose pods the action may evict, by queue."""
        jobs, found = self._session.snapshot.all_jobs, dict[str, list[str]]()
        for key in self._pods.jobs:
            facts = jobs.get(key)
            if facts is not None and not facts.group.spec.is_protected:
                found.setdefault(facts.queue, []).append(key)
        if not self._is_reclaim:
            return found
        queues = self._session.queues
        return {name: keys for name, keys in found.items() if name in queues and queues[name].facts.is_reclaimable}

    @cached_property
    def _of_all(self) -> Ints:
        return self._pods.requests(key for keys in self._by_queue.values() for key in keys)

    @property
    def jobs(self) -> int:
        """The number of jobs with pods that may be evicted."""
        return len(self._pods.jobs)

    def of_queue(self, queue: str) -> Ints:
        """Return the amounts for a preemptor in `queue`, whatever `may_lose` says."""
        if self._of_last_queue is None or self._of_last_queue[0] != queue:
            own = self._pods.requests(self._by_queue.get(queue, ()))
            self._of_last_queue = queue, self._of_all - own if self._is_reclaim else own
        return self._of_last_queue[1]

    def knows(self, preemptor: Preemptor) -> bool:
        """Whether `of_losing` was computed in the present state."""
        known = self._of_losing.get(preemptor)
        return known is not None and known[0] == self._session.moves.state

    def of_losing(self, preemptor: Preemptor) -> Ints:
        """Return the amounts of the jobs that may lose pods for `preemptor` in the present state."""
        session, state = self._session, self._session.moves.state
        known = self._of_losing.pop(preemptor, None)
        if known is None or known[0] != state:
            names = [name for name in self._by_queue if (name != preemptor.queue) is self._is_reclaim]
            jobs = ((key, session.job(key)) for name in names for key in self._by_queue[name])
            losing = (key for key, job in jobs if job is not None and self._may_lose(job, preemptor))
            known = state, self._pods.requests(losing)
        self._of_losing[preemptor] = known
        if len(self._of_losing) > _MOST_KEPT:
            del self._of_losing[next(iter(self._of_losing))]
        return known[1]


def would_fit(session: Session, plan: PlacementPlan, freeable: Ints | None = None) -> Bools:
    """Return on which nodes the request fits after all releasing pods are gone, and `freeable` besides."""
    room = session.columns.future_idle()[plan.present]
    if freeable is not None:
        room += freeable[plan.present]
    fits: Bools = np.logical_and.reduce(plan.request[plan.present, None] <= room)
    return fits
