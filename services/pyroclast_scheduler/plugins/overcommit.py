"""Plugin overcommit: admit somewhat more than the cluster holds, and no more."""

from __future__ import annotations

from typing import Final

import numpy as np

from pyroclast.api.enums import PodGroupPhase
from pyroclast_scheduler.framework import demand
from pyroclast_scheduler.framework.arguments import Arguments
from pyroclast_scheduler.framework.jobs import Job
from pyroclast_scheduler.framework.plugin import Hooks, Vote
from pyroclast_scheduler.framework.points import Point
from pyroclast_scheduler.framework.session import Session

__all__ = ["Overcommit"]

_FACTOR: Final = 1.2


class Overcommit:
    """`overcommit-factor`: how much of the cluster may be promised; below 1 the default stands."""

    def __init__(self, arguments: Arguments) -> None:
        factor = arguments.number("overcommit-factor", _FACTOR)
        if factor < 1:
            arguments.warnings.append(f"argument overcommit-factor: {factor} is below 1; using {_FACTOR}")
            factor = _FACTOR
        self._factor = factor

    def open(self, session: Session) -> Hooks:
        """Register."""
        dimensions = session.dimensions
        used = session.columns.used[:, session.snapshot.is_ready].sum(axis=1)
        idle = session.total * self._factor - used
        promised = np.zeros(len(dimensions), dtype=np.int64)
        for job in session.jobs.values():
            if job.facts.min_resources is None:
                continue
            if job.phase is PodGroupPhase.INQUEUE:
                promised += demand.reserved(job, dimensions, less_allocated=False)
            elif demand.is_running_with_minimum(job):
                promised += demand.reserved(job, dimensions, less_allocated=True)

        def enqueueable(job: Job) -> Vote:
            minimum = job.facts.minimum(dimensions)
            if minimum is None:
                return Vote.PERMIT
            short = demand.short_names(promised + minimum, idle, minimum, dimensions.names)
            if not short:
                return Vote.PERMIT
            listed = ", ".join(f"overused {name}" for name in short)
            session.note(job, "Normal", "Unschedulable", f"resource in cluster is overused: {listed}")
            return Vote.REJECT

        def enqueued(job: Job) -> None:
            promised[:] += demand.reserved(job, dimensions, less_allocated=False)

        return {Point.JOB_ENQUEUEABLE: enqueueable, Point.JOB_ENQUEUED: enqueued}
