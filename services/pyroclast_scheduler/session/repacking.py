"""Places a gang in another way if its tasks do not fit in their order, each on the best node.

This is the entry for all who place tasks of a job. The usual way comes first, and its result stays: the nodes that plugins
prefer, and the reasons that users are told. Only a gang with pods of several shapes that lacks its minimum, and whose sums fit,
is placed anew: as `placement.packing` finds it, and for pods that depend on other pods also in other orders. Plugins are asked
about each pod as before, and what they refuse is undone. A session spends at most `_MOST_CELLS` and `_MOST_STEPS` on this.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Final

import numpy as np

from pyroclast_scheduler.model.fit_errors import FitErrors
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools, Rows
from pyroclast_scheduler.model.subjobs import SubJob
from pyroclast_scheduler.model.tasks import Task, TaskStatus
from pyroclast_scheduler.placement.packing import Members, Packing, packed
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.session.statement import Statement
from pyroclast_scheduler.session.task_placement import alike, find, place_in_order

_MOST_KINDS: Final = 8  # shapes of one gang: launchers, workers, parameter servers; more than that are seldom together
_MOST_CELLS: Final = 4_000_000  # kinds times nodes in one session: about 0.2 s
_MOST_STEPS: Final = 20_000  # trials of a pod on a node in one session: about 0.1 s
_STEPS: Final = 4_000  # the same for one gang; on random clusters of 5 nodes 1,000 find everything
_PERMUTED: Final = 3  # kinds of which all orders are tried


def place(
    session: Session,
    job: Job,
    tasks: deque[Task],
    *,
    sub_job: SubJob | None = None,
    within: Bools | None = None,
    hyper_node: str = "",
    is_alone: bool = False,
) -> Statement | None:
    """Place tasks until `job` (or `sub_job`) is ready, see `place_in_order`, in another way if they do not fit in their order."""
    trial = _Trial(session, job, sub_job, within, tasks)
    listed = [] if trial.is_ready() else list(tasks)
    before = _Told.of(job, listed)

    def in_order() -> Statement | None:
        return place_in_order(session, job, tasks, sub_job=sub_job, within=within, hyper_node=hyper_node, is_alone=is_alone)

    statement = in_order()
    kinds = {id(task.facts.shape): task for task in listed} if statement is None else {}
    if not 1 < len(kinds) <= _MOST_KINDS or session.reorder(deque()) or any(task.facts.nominated for task in listed):
        return statement
    told, rest = _Told.of(job, listed), list(tasks)
    before.restore(job, listed)
    statement = trial.packed(listed)
    if statement is None and any(task.facts.shape.is_coupled for task in kinds.values()):
        for order in _orders(kinds):
            tasks.clear()
            for kind in order:
                tasks.extend(task for task in listed if id(task.facts.shape) == kind)
            before.restore(job, listed)
            statement = in_order()
            if statement is not None:
                return statement
    if statement is None:
        told.restore(job, listed)
        tasks.clear()
        tasks.extend(rest)
    return statement


def _orders(kinds: dict[int, Task]) -> Iterator[tuple[int, ...]]:
    """Yield other orders of the kinds than that of the tasks: all, or the reverse one if there are many."""
    keys = tuple(kinds)
    yield from (order for order in permutations(keys) if order != keys) if len(keys) <= _PERMUTED else (keys[::-1],)


@dataclass(slots=True)
class _Spent:
    """What the session may still spend."""

    cells: int = _MOST_CELLS
    steps: int = _MOST_STEPS


def _spent(_: Session) -> _Spent:
    return _Spent()


@dataclass(frozen=True, slots=True)
class _Told:
    """What users are told about a failed placement."""

    errors: dict[str, FitErrors]
    roles: set[str]
    objection: str
    is_limited: bool
    last: list[tuple[TaskStatus, int] | None]

    @classmethod
    def of(cls, job: Job, tasks: Sequence[Task]) -> _Told:
        return cls(dict(job.fit_errors), set(job.failed_roles), job.objection, job.is_limited, [task.last for task in tasks])

    def restore(self, job: Job, tasks: Sequence[Task]) -> None:
        job.fit_errors, job.failed_roles = dict(self.errors), set(self.roles)
        job.objection, job.is_limited = self.objection, self.is_limited
        for task, last in zip(tasks, self.last, strict=True):
            task.last = last


class _Trial:
    """One trial to place the tasks of a job or sub-job by a packing."""

    def __init__(self, session: Session, job: Job, sub_job: SubJob | None, within: Bools | None, tasks: deque[Task]) -> None:
        self._session, self._job, self._sub_job, self._within, self._tasks = session, job, sub_job, within, tasks

    def is_ready(self) -> bool:
        session, job, sub_job = self._session, self._job, self._sub_job
        return session.job_ready(job) if sub_job is None else session.sub_job_ready(job, sub_job)

    def packed(self, listed: list[Task]) -> Statement | None:
        """Place what the gang lacks of `listed` as they can be packed, and leave the other tasks in the deque."""
        session, spent = self._session, self._session.once(_spent)
        needed = self._needed(listed)
        kinds: dict[int, list[Task]] = {}
        for task in needed:
            kinds.setdefault(id(task.facts.shape), []).append(task)
        pods = list(kinds.values())
        spent.cells -= len(pods) * len(session.names)
        if spent.cells < 0 or any(each[0].facts.shape.has_claims for each in pods):
            return None
        members, rows = self._members(pods)
        if not len(rows) or not members.may_fit:
            return None
        steps = min(_STEPS, spent.steps)
        packing = packed(members, steps)
        spent.steps -= steps if packing is None else 0
        statement = None if packing is None else self._placed(pods, packing, rows)
        if statement is not None:
            placed = {task.uid for task in needed}
            self._tasks.clear()
            self._tasks.extend(task for task in listed if task.uid not in placed)
        return statement

    def _needed(self, listed: list[Task]) -> list[Task]:
        """Return the tasks that make the gang ready: those that roles lack, then the smallest."""
        job, sub_job = self._job, self._sub_job
        roles = job.facts.role_minimum if job.enforces_roles and not (sub_job is not None and job.is_divided) else {}
        if sub_job is not None and job.is_divided:
            lacking = sub_job.tally.missing(sub_job.min_available, {})
        else:
            lacking = job.tally.missing(job.facts.min_available, job.facts.role_minimum)
        if lacking >= len(listed):
            return listed
        of_roles = {role: max(0, least - job.tally.role_ready(role)) for role, least in roles.items()}
        chosen: list[Task] = []
        for task in listed:
            if of_roles.get(task.facts.role, 0) > 0:
                of_roles[task.facts.role] -= 1
                chosen.append(task)
        known = {task.uid for task in chosen}
        total = np.maximum(self._session.total, 1)
        further = sorted(
            (task for task in listed if task.uid not in known),
            key=lambda task: float((self._session.plan(task.facts.shape).request / total).max()),
        )
        return [*chosen, *further[: max(0, lacking - len(chosen))]]

    def _members(self, pods: Sequence[Sequence[Task]]) -> tuple[Members, Rows]:
        """Return the packing problem of the pods of each kind, and the rows of its nodes."""
        session = self._session
        nodes = np.arange(len(session.names), dtype=np.intp)
        closed = session.closed_to(self._job)
        copies = np.zeros((len(pods), len(nodes)), dtype=np.int64)
        plans = [session.plan(each[0].facts.shape) for each in pods]
        for kind, (plan, own) in enumerate(zip(plans, pods, strict=True)):
            copies[kind] = np.minimum(plan.room(nodes, future=False), len(own))
            for refusal in session.coupled_refusals(own[0], plan) or ():
                copies[kind, refusal.nodes] = 0
                if refusal.limit is not None:
                    np.minimum(copies[kind], refusal.limit.room[refusal.limit.codes], out=copies[kind])
        if closed is not None:
            copies[:, closed] = 0
        if self._within is not None:
            copies[:, ~self._within] = 0
        rows = np.flatnonzero(copies.any(axis=0))
        requests = np.array([plan.request for plan in plans])
        asked = np.flatnonzero(requests.any(axis=0))
        free = np.array([session.columns.free(int(row), rows, future=False) for row in asked])
        counts = np.array([len(each) for each in pods], dtype=np.int64)
        return Members(requests[:, asked], counts, copies[:, rows], free.reshape(len(asked), len(rows))), rows

    def _placed(self, pods: Sequence[Sequence[Task]], packing: Packing, rows: Rows) -> Statement | None:
        """Allocate the pods as the packing says, if all plugins agree and the gang is ready then."""
        statement, left = self._session.statement(), [deque(each) for each in pods]
        for kind, chosen in packing:
            for row, count in zip(*np.unique(rows[chosen], return_counts=True), strict=True):
                if not self._put(statement, [left[kind].popleft() for _ in range(count)], int(row)):
                    statement.discard()
                    return None
        if self.is_ready():
            return statement
        statement.discard()
        return None

    def _put(self, statement: Statement, run: list[Task], row: int) -> bool:
        """Allocate equal tasks to one node. Return whether all plugins agree."""
        session, job = self._session, self._job
        plan, there = session.plan(run[0].facts.shape), np.zeros(len(session.names), dtype=np.bool_)
        there[row] = True
        if session.allocatable(session.queues[job.facts.queue], plan, len(run), run[0]) < len(run):
            return False
        if session.pre_predicate(run[0], plan) is not None:
            return False
        while run:
            batch = find(session, job, run[0], plan, alike(session, run), within=there)
            if batch is None or batch.is_promise or not statement.allocate(job, plan, run[: len(batch.rows)], batch.rows):
                return False
            run = run[len(batch.rows) :]
        return True
