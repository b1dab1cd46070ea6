"""The amounts that a target still needs, and the amounts that nodes have for it once they are drained.

Lasting pods stay on a node while it drains, until someone deletes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from pyroclast.api.enums import PodGroupPhase
from pyroclast_scheduler.model.dimensions import Amounts
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools, Floats
from pyroclast_scheduler.model.tasks import ALLOCATED, TaskFacts
from pyroclast_scheduler.plugins.reservation.state import Need, Nodes, Piece, estimate, expected_end
from pyroclast_scheduler.session.plugin_session import PluginSession

WAITING_PHASES: Final = frozenset({PodGroupPhase.PENDING, PodGroupPhase.INQUEUE})


class LastingPods:
    """The requests of lasting pods on each node, kept from session to session. Only nodes whose pods changed are read again."""

    is_derived: Final = True

    def __init__(self) -> None:
        self._residents: list[Sequence[TaskFacts]] = []
        self._asked: dict[int, Amounts] = {}

    def of(self, residents: Sequence[Sequence[TaskFacts]]) -> Mapping[int, Amounts]:
        """Return the sum of their requests by row. `residents`: the pods of each row, as tuples that never change."""
        known = self._residents
        for row in range(len(residents), len(known)):
            self._asked.pop(row, None)
        for row, tasks in enumerate(residents):
            if row < len(known) and known[row] is tasks:
                continue
            asked: Counter[str] = Counter()
            for task in tasks:
                if is_lasting(task):
                    asked.update(task.shape.request)
            if asked:
                self._asked[row] = dict(asked)
            else:
                self._asked.pop(row, None)
        self._residents = list(residents)
        return self._asked


def is_lasting(task: TaskFacts) -> bool:
    """Whether a pod belongs to a DaemonSet or to the node itself, or to no group."""
    return not task.job or any(owner.kind in {"DaemonSet", "Node"} for owner in task.pod.metadata.owner_references)


def is_waiting(session: PluginSession, job: Job) -> bool:
    """Whether nodes may be reserved for `job`: it is not enqueued yet, or enqueued and not ready."""
    return job.phase in WAITING_PHASES and not (job.facts.tasks and session.job_ready(job))


def need_of(session: PluginSession, job: Job) -> Need:
    """Return the need of the gang: the requests of the tasks that it waits for, or its minimum while it has no tasks."""
    dimensions = session.dimensions
    lacking = job.tally.missing(job.facts.min_available, job.facts.role_minimum)
    waiting = session.waiting_in_order(job.tasks)
    if len(waiting) >= lacking > 0:
        counts = Counter(task.facts.shape for task in waiting[:lacking])
        pieces = [
            Piece(dimensions.vector(shape.request).astype(np.float64), count, session.plan(shape).mask)
            for shape, count in counts.items()
        ]
        pieces.sort(key=lambda piece: tuple(-piece.request))
        total = np.asarray(np.sum([piece.request * piece.count for piece in pieces], axis=0))
        return Need(total, tuple(pieces), was_refused=bool(job.fit_errors) and not job.is_limited)
    minimum = job.facts.minimum(dimensions)
    return Need(np.zeros(len(dimensions)) if minimum is None else np.maximum(minimum - job.allocated, 0))


class Cluster:
    """The nodes of a session, and the amounts that a target could use on them."""

    def __init__(self, session: PluginSession, lasting: LastingPods) -> None:
        self._session = session
        self._pods = lasting
        self._whole: Floats | None = None

    def mask(self, names: Collection[str]) -> Bools:
        """Return a mask of the nodes with these names."""
        mask = np.zeros(len(self._session.names), dtype=np.bool_)
        mask[[row for name in names if (row := self._session.snapshot.rows.get(name)) is not None]] = True
        return mask

    def nodes(self, job: Job, others: Collection[str] = ()) -> Nodes:
        """Return the nodes that `job` may use. `others`: the names of nodes that are locked for other targets."""
        session = self._session
        return Nodes(
            list(session.names),
            session.snapshot.rows,
            self._passing(job),
            self._capacity(job),
            session.columns.idle().astype(np.float64),
            self.mask(others),
        )

    def ends(self, job: Job, rows: Iterable[int], assumed: float | None) -> tuple[list[tuple[int, float | None]], str]:
        """Return the end of the last pod of other jobs on each node (None: unknown), and a text about the first late estimate."""
        now = self._session.ports.now
        found: list[tuple[int, float | None]] = []
        late = ""
        for row in rows:
            end: float | None = now
            for task in self._session.snapshot.residents[row]:
                if is_lasting(task) or task.job == job.facts.key:
                    continue
                facts = self._session.snapshot.all_jobs.get(task.job)
                seconds = estimate("" if facts is None else facts.running_estimate, assumed)
                if seconds is None or end is None:
                    end = None
                    continue
                started = task.started
                until, is_late = expected_end(now if started is None else started, seconds, now)
                if is_late:
                    late = late or f"job {task.job} outlives its estimate"
                end = max(end, until)
            found.append((row, end))
        return found, late

    def _passing(self, job: Job) -> Bools:
        session = self._session
        open_nodes = session.nodes.usable & ~session.features.closed()
        barred = session.barred_to(job)
        if barred is not None:
            open_nodes = open_nodes & ~barred
        shapes = {id(task.facts.shape): task.facts.shape for task in job.tasks if session.is_waiting(task)}
        if not shapes:
            return open_nodes
        passing = np.logical_or.reduce([session.plan(shape).mask for shape in shapes.values()])
        return np.asarray(passing & open_nodes)

    def _capacity(self, job: Job) -> Floats:
        """Return the allocatable amounts of each node less the requests of lasting pods and of the pods of `job`."""
        whole = self._lasting()
        own = [task for task in job.tasks if task.row >= 0 and task.status in ALLOCATED]
        if own:
            whole = whole.copy()
            for task in own:
                whole[:, task.row] -= self._session.dimensions.vector(task.facts.shape.request)
        return whole

    def _lasting(self) -> Floats:
        if self._whole is None:
            session = self._session
            whole = session.columns.allocatable.astype(np.float64)
            for row, asked in self._pods.of(session.snapshot.residents).items():
                whole[:, row] -= session.dimensions.sums(asked)
            self._whole = whole
        return self._whole
