"""Infeasible nodes: those on which tasks of a kind could not be given room, remembered as long as nothing changes there.

A gang of hundreds of equal pods asks the same of every node: what was found out for the first holds for the others.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import numpy as np

from pyroclast.api.records import PersistentVolumeClaim
from pyroclast_scheduler.model.claims import volume_claims
from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools
from pyroclast_scheduler.model.shapes import Shape
from pyroclast_scheduler.model.snapshot import Snapshot
from pyroclast_scheduler.model.tasks import Task, TaskFacts
from pyroclast_scheduler.session.configuration import Configuration
from pyroclast_scheduler.session.session import Session

__all__ = ["InfeasibleNodes", "InfeasibleNodesCache"]

_ALONE: Final = "ReadWriteOncePod"
_MOST_BYTES: Final = 2**26  # of what goes from session to session, a byte for each node and kind


class InfeasibleNodesCache:
    """What was found out for jobs of a kind, from session to session: where nothing changed since, it holds."""

    is_derived = True

    def __init__(self) -> None:
        self._number = self._nodes = 0
        self._configuration: Configuration | None = None
        self._infeasible: dict[Hashable, tuple[Shape, Bools]] = {}

    def open(self, snapshot: Snapshot, configuration: Configuration) -> None:
        """A session begins: forget what may be otherwise now. To be told of each."""
        touched, before = snapshot.touched, (self._number + 1, self._nodes)
        self._number, self._nodes = snapshot.number, len(snapshot.names)
        if touched is None or before != (self._number, self._nodes) or configuration != self._configuration:
            self._infeasible.clear()
        self._configuration = configuration
        for _, rows in self._infeasible.values():
            rows[list(touched or ())] = False

    def of(self, kind: Hashable) -> Bools | None:
        """The nodes that are infeasible for tasks of that kind. Not to be changed."""
        found = self._infeasible.get(kind)
        return None if found is None else found[1]

    def keep(self, kind: Hashable, shape: Shape, rows: Bools) -> None:
        """The nodes that are, as the session leaves them; `shape`: of the tasks, by whose identity they are of that kind."""
        self._infeasible.pop(kind, None)
        self._infeasible[kind] = shape, rows
        if len(self._infeasible) * max(1, self._nodes) > _MOST_BYTES:
            del self._infeasible[next(iter(self._infeasible))]


class InfeasibleNodes:
    """Infeasible nodes by kind of task, for one action. `book`: what goes on to that of the next session, once it is closed.

    Tasks of one shape, role and priority are of one kind, unless other pods or their claims tell them apart. That holds within
    one job, and among jobs of one kind while they have what they began with.
    """

    def __init__(self, session: Session, book: InfeasibleNodesCache | None = None) -> None:
        self._session = session
        self._domains = session.label_refusals.chosen
        self._book = book
        self._shared: dict[Hashable, Shape] = {}
        self._seen = 0 if book is not None else len(session.moves.log)
        self._changed: Ints = np.full(len(session.names), -1, dtype=np.int64)
        self._infeasible: dict[Hashable, Ints] = {}
        self._everywhere: dict[Hashable, int] = {}
        if book is not None:
            self._reopen_changed()

    def kind(self, job: Job, task: Task) -> Hashable:
        """What `task` has in common with others of `job`."""
        facts = task.facts
        signature = self._session.term_counts.signature(facts) if self._session.snapshot.is_coupled else ()
        own = self._claims(facts) if facts.shape.has_claims else ()
        whose, domain = self._session.kind(job), frozenset(self._domains.get(job.facts.key, {}).items())
        kind = (
            whose or job.facts.key,
            id(facts.shape),
            facts.role,
            facts.priority,
            facts.is_preemptable,
            signature,
            own,
            domain,
            facts.part,
        )
        if whose is not None and own is not None:
            self._shared[kind] = facts.shape
        return kind if own is not None else (kind, facts.uid)

    def _claims(self, facts: TaskFacts) -> tuple[str, ...] | None:
        """The claims of a pod that holds no more than others with the same ones; None where its claims are its own matter.

        Who goes from one node may free a claim for one pod alone on all nodes. A claim without a volume gets one in the session.
        """
        claims = volume_claims(facts.pod)
        if facts.pod.spec.resource_claims or any(claim.is_own for claim in claims):
            return None
        records = [self._session.told_objects(PersistentVolumeClaim).get(claim.key) for claim in claims]
        is_plain = all(each is not None and each.spec.volume_name and _ALONE not in each.spec.access_modes for each in records)
        return tuple(claim.key for claim in claims) if is_plain else None

    def open(self, kind: Hashable, nodes: Bools) -> Bools:
        """Those of `nodes` that are not known to be infeasible for tasks of that kind."""
        since = self._since(kind)
        if since is None:
            return nodes
        self._look()
        return nodes & (since <= self._changed)

    def is_infeasible(self, kind: Hashable) -> bool:
        """Whether no node could be found for another task of that kind, and nothing changed since."""
        return self._everywhere.get(kind) == len(self._session.moves.log)

    def give_up(self, kind: Hashable) -> None:
        """No node was found for a task of that kind."""
        self._everywhere[kind] = len(self._session.moves.log)

    def add(self, kind: Hashable, row: int) -> None:
        """A task of that kind could not be given room on node `row`."""
        since = self._since(kind)
        if since is None:
            since = self._infeasible[kind] = np.full(len(self._changed), -1, dtype=np.int64)
        since[row] = len(self._session.moves.log)

    def close(self) -> None:
        """The action ends: what was found out of nodes that no action changed goes on to the next session."""
        if self._book is None:
            return
        self._look()
        for kind, shape in self._shared.items():
            if kind in self._infeasible:
                self._book.keep(kind, shape, (self._infeasible[kind] >= 0) & (self._changed < 0))

    def _reopen_changed(self) -> None:
        """Who may go of a job depends on what the job has elsewhere."""
        for job in (*self._session.jobs.values(), *self._session.others.values()):
            if job.is_changed:
                self._changed[[task.row for task in job.tasks if task.row >= 0]] = 0

    def _since(self, kind: Hashable) -> Ints | None:
        """By node, how much had changed when it became infeasible for tasks of that kind, −1 if it is not; None if no node is."""
        found = self._infeasible.get(kind)
        if found is None and self._book is not None and (known := self._book.of(kind)) is not None:
            found = self._infeasible[kind] = np.where(known, np.int64(0), np.int64(-1))
        return found

    def _look(self) -> None:
        log = self._session.moves.log
        for position in range(self._seen, len(log)):
            self._changed[log[position]] = position
        self._seen = len(log)
