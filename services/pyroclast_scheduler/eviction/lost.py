"""Nodes on which tasks of a kind could not be given room, remembered as long as nothing changes there.

A gang of hundreds of equal pods asks the same of every node: what was found out for the first holds for the others.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from pyroclast_scheduler.model.columns import Bools
from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.session.session import Session

__all__ = ["Lost"]


class Lost:
    """Kept for one action.

    Tasks of one shape, role and priority are of one kind, unless other pods or their claims tell them apart: those of one job,
    and of jobs of one kind while they have what they began with.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._seen = len(session.log)
        self._changed: Ints = np.full(len(session.names), -1, dtype=np.int64)
        self._lost: dict[Hashable, Ints] = {}
        self._everywhere: dict[Hashable, int] = {}

    def kind(self, job: Job, task: Task) -> Hashable:
        """What `task` has in common with others of `job`."""
        facts = task.facts
        signature = self._session.term_counts.signature(facts) if self._session.snapshot.is_coupled else ()
        own = facts.uid if facts.shape.has_claims else ""
        whose = None if job.is_changed else job.facts.kind
        return whose or job.facts.key, id(facts.shape), facts.role, facts.priority, facts.is_preemptable, signature, own

    def open(self, kind: Hashable, nodes: Bools) -> Bools:
        """Those of `nodes` that are not known to be lost to tasks of that kind."""
        since = self._lost.get(kind)
        if since is None:
            return nodes
        log = self._session.log
        for position in range(self._seen, len(log)):
            self._changed[log[position]] = position
        self._seen = len(log)
        return nodes & (since <= self._changed)

    def is_hopeless(self, kind: Hashable) -> bool:
        """Whether no node could be found for another task of that kind, and nothing changed since."""
        return self._everywhere.get(kind) == len(self._session.log)

    def give_up(self, kind: Hashable) -> None:
        """No node was found for a task of that kind."""
        self._everywhere[kind] = len(self._session.log)

    def add(self, kind: Hashable, row: int) -> None:
        """A task of that kind could not be given room on node `row`."""
        since = self._lost.get(kind)
        if since is None:
            since = self._lost[kind] = np.full(len(self._changed), -1, dtype=np.int64)
        since[row] = len(self._session.log)
