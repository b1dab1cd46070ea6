"""Infeasible nodes: nodes on which evictions do not help tasks of a kind. The results are used until the nodes change.

A gang with hundreds of equal pods tries the same nodes for each pod. The result for the first pod applies to the others.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import numpy as np

from pyroclast.api.records import PersistentVolumeClaim
from pyroclast_scheduler.model.claims import volume_claims
from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools, Rows
from pyroclast_scheduler.model.shapes import Shape
from pyroclast_scheduler.model.snapshot import Snapshot
from pyroclast_scheduler.model.tasks import Task, TaskFacts
from pyroclast_scheduler.session.configuration import Configuration
from pyroclast_scheduler.session.session import Session

_ALONE: Final = "ReadWriteOncePod"
_MOST_BYTES: Final = 2**26  # the largest size of the cache, with one byte per node and kind


class InfeasibleNodesCache:
    """The infeasible nodes by kind of task, kept from session to session until the nodes change."""

    is_derived = True

    def __init__(self) -> None:
        self._number = self._nodes = 0
        self._configuration: Configuration | None = None
        self._infeasible: dict[Hashable, tuple[Shape, Bools]] = {}

    def open(self, snapshot: Snapshot, configuration: Configuration) -> None:
        """Forget outdated results at the start of a session. It must be called for each session."""
        touched, before = snapshot.touched, (self._number + 1, self._nodes)
        self._number, self._nodes = snapshot.number, len(snapshot.names)
        if touched is None or before != (self._number, self._nodes) or configuration != self._configuration:
            self._infeasible.clear()
        self._configuration = configuration
        for _, rows in self._infeasible.values():
            rows[list(touched or ())] = False

    def of(self, kind: Hashable) -> Bools | None:
        """Return a mask of the nodes that are infeasible for tasks of that kind. The caller must not change the mask."""
        found = self._infeasible.get(kind)
        return None if found is None else found[1]

    def keep(self, kind: Hashable, shape: Shape, rows: Bools) -> None:
        """Store the infeasible nodes at the end of a session, with the shape of the tasks, so that its identity stays valid."""
        self._infeasible.pop(kind, None)
        self._infeasible[kind] = shape, rows
        if len(self._infeasible) * max(1, self._nodes) > _MOST_BYTES:
            del self._infeasible[next(iter(self._infeasible))]


class InfeasibleNodes:
    """The infeasible nodes by kind of task, for one action. `book`: the results for the next session, which `close` fills.

    Tasks of the same shape, role and priorities are of one kind, unless other pods or claims distinguish them. A kind spans one
    job, or all unchanged jobs of one equivalence class.
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
        for job in (*session.jobs.values(), *session.others.values()) if book is not None else ():
            if job.is_changed:  # since the last session
                self._reopen(job, 0)

    def kind(self, job: Job, task: Task) -> Hashable:
        """Return the kind of `task`: tasks of one kind have the same infeasible nodes."""
        facts = task.facts
        signature = self._session.term_counts.signature(facts) if self._session.snapshot.is_coupled else ()
        own = self._claims(facts) if facts.shape.has_claims else ()
        whose, domain = self._session.kind(job), frozenset(self._domains.get(job.facts.key, {}).items())
        what = (id(facts.shape), facts.role, facts.priority, job.facts.granted(facts), facts.is_preemptable, facts.part)
        kind = (whose or job.facts.key, *what, signature, own, domain)
        if whose is not None and own is not None:
            self._shared[kind] = facts.shape
        return kind if own is not None else (kind, facts.uid)

    def _claims(self, facts: TaskFacts) -> tuple[str, ...] | None:
        """Return the claims of a pod that has the same feasible nodes as other pods with these claims; None if that is uncertain.

        Evictions on one node may free a ReadWriteOncePod claim for one pod on all nodes. A claim without a volume gets one in the
        session.
        """
        claims = volume_claims(facts.pod)
        if facts.pod.spec.resource_claims or any(claim.is_own for claim in claims):
            return None
        records = [self._session.told_objects(PersistentVolumeClaim).get(claim.key) for claim in claims]
        is_plain = all(each is not None and each.spec.volume_name and _ALONE not in each.spec.access_modes for each in records)
        return tuple(claim.key for claim in claims) if is_plain else None

    def open(self, kind: Hashable, nodes: Bools) -> Bools:
        """Return those of `nodes` that are not known to be infeasible for tasks of that kind."""
        since = self._since(kind)
        if since is None:
            return nodes
        self._look()
        return nodes & (since <= self._changed)

    def is_infeasible(self, kind: Hashable) -> bool:
        """Whether no node was found for a task of that kind, and no move was made since."""
        return self._everywhere.get(kind) == len(self._session.moves.log)

    def give_up(self, kind: Hashable) -> None:
        """Record that no node was found for a task of that kind."""
        self._everywhere[kind] = len(self._session.moves.log)

    def add(self, kind: Hashable, rows: int | Rows) -> None:
        """Record that evictions on one or several nodes do not help tasks of that kind."""
        since = self._since(kind)
        if since is None:
            since = self._infeasible[kind] = np.full(len(self._changed), -1, dtype=np.int64)
        since[rows] = len(self._session.moves.log)

    def close(self) -> None:
        """Pass the results for unchanged nodes on to the next session, at the end of the action."""
        if self._book is None:
            return
        self._look()
        for kind, shape in self._shared.items():
            if kind in self._infeasible:
                self._book.keep(kind, shape, (self._infeasible[kind] >= 0) & (self._changed < 0))

    def _since(self, kind: Hashable) -> Ints | None:
        """Return by node the length of the log when it became infeasible for that kind, −1 if feasible; None if all nodes are."""
        found = self._infeasible.get(kind)
        if found is None and self._book is not None and (known := self._book.of(kind)) is not None:
            found = self._infeasible[kind] = np.where(known, np.int64(0), np.int64(-1))
        return found

    def _look(self) -> None:
        """Reset the nodes of the moves since the last call, and all nodes with pods of the moved jobs."""
        moves, last = self._session.moves, dict[str, tuple[Job, int]]()
        for position in range(self._seen, len(moves.log)):
            self._changed[moves.log[position]] = position
            last[moves.jobs[position].facts.key] = moves.jobs[position], position
        for job, position in last.values():
            if job.tally.ready:  # a job without running pods has no possible victims
                self._reopen(job, position)
        self._seen = len(moves.log)

    def _reopen(self, job: Job, position: int) -> None:
        """Reset the nodes with pods of `job`, since the possible victims of a job depend on its pods on other nodes."""
        rows = [task.row for task in job.tasks if task.row >= 0]
        self._changed[rows] = np.maximum(self._changed[rows], position)
