"""Plugin drf: the job with the smallest dominant share of the cluster goes first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyroclast_scheduler.framework import demand
from pyroclast_scheduler.framework.arguments import Arguments
from pyroclast_scheduler.framework.jobs import Job, Task
from pyroclast_scheduler.framework.plugin import Hooks
from pyroclast_scheduler.framework.points import Point
from pyroclast_scheduler.framework.session import Session
from pyroclast_scheduler.framework.statement import Move
from pyroclast_scheduler.model.dimensions import Ints

__all__ = ["Drf"]

_SAME: Final = 1e-6


class Drf:
    """No arguments."""

    def __init__(self, arguments: Arguments) -> None:
        del arguments

    def open(self, session: Session) -> Hooks:
        """Register."""
        shares = _Shares(session)
        return {Point.JOB_ORDER: shares.of, Point.PREEMPTABLE: shares.victims, Point.EVENTS: shares.moved}


class _Shares:
    """Dominant shares of jobs, promised places included."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._total = session.total
        self._allocated: dict[str, Ints] = {}
        self._shares: dict[str, float] = {}

    def of(self, job: Job) -> float:
        key = job.facts.key
        found = self._shares.get(key)
        if found is None:
            found = self._shares[key] = demand.share(self._has(job), self._total)
        return found

    def moved(self, move: Move, sign: int) -> None:
        self._allocated[move.job.facts.key] = self._has(move.job) + move.change * sign
        self._shares.pop(move.job.facts.key, None)

    def victims(self, preemptor: Task, job: Job, candidates: Sequence[tuple[Job, Task]]) -> list[tuple[Job, Task]]:
        """Tasks of jobs that keep at least the share that the preemptor's job would have."""
        mine = demand.share(self._has(job) + self._session.plan(preemptor.facts.shape).request, self._total)
        left: dict[str, Ints] = {}
        chosen: list[tuple[Job, Task]] = []
        for owner, task in candidates:
            key = owner.facts.key
            left[key] = left.get(key, self._has(owner)) - self._session.plan(task.facts.shape).request
            theirs = demand.share(left[key], self._total)
            if mine < theirs or abs(mine - theirs) <= _SAME:
                chosen.append((owner, task))
        return chosen

    def _has(self, job: Job) -> Ints:
        """What `job` has, promised places included."""
        found = self._allocated.get(job.facts.key)
        return job.facts.allocated(self._session.dimensions) if found is None else found
