"""Places a gang that has parts: each whole or not at all, in a topology domain if required, those that lack fewest pods first."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from pyroclast.lifecycle.gang.groups import GroupPart
from pyroclast_scheduler.model.fit_errors import FitErrors
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools
from pyroclast_scheduler.model.subjobs import SubJob, sub_job_uid
from pyroclast_scheduler.model.tasks import Task, TaskStatus
from pyroclast_scheduler.session.domains import NO_DOMAIN, best_domain, forget_errors
from pyroclast_scheduler.session.repacking import place
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.session.statement import Statement

_TOO_MANY: Final = 1 << 40  # more pods than any gang has


def missing(sub_job: SubJob) -> int:
    """Return how many more pods of `sub_job` must be allocated or pipelined before it can start."""
    return max(0, sub_job.tally.missing(sub_job.min_available, {}) - sub_job.tally[TaskStatus.PIPELINED])


def lacking(job: Job, part: GroupPart) -> int:
    """Return how many more pods must be allocated or pipelined before `part` can start; a huge number if too few are pending."""
    if part.parts:
        return sum(sorted(lacking(job, each) for each in part.parts)[: part.minimum])
    sub_job = sub_job_of_part(job, part)
    if sub_job is None:
        return _TOO_MANY
    count = missing(sub_job)
    return count if count <= sub_job.tally[TaskStatus.PENDING] else _TOO_MANY


def sub_job_of_part(job: Job, part: GroupPart) -> SubJob | None:
    """Return the sub-job of the part `part` of a group; None if the part has no pods."""
    return job.sub_jobs.get(sub_job_uid(job.facts.key, part.name))


def place_parts(session: Session, job: Job, tasks: deque[Task]) -> Statement | None:
    """Place as many parts as fit; None, with everything undone, if the gang is not ready then. `tasks` is empty afterwards."""
    tree = job.facts.group.spec.tree
    if tree is None:
        raise ValueError(f"job {job.facts.key} has no parts")
    waiting: dict[str, list[Task]] = {}
    for task in tasks:
        waiting.setdefault(task.facts.part, []).append(task)
    tasks.clear()
    forget_errors(job)
    attempt = _PartPlacement(session, job, waiting)
    statement = attempt.place(tree, None)
    if statement is not None:
        if session.job_ready(job) or session.job_pipelined(job):
            return statement
        statement.discard()
    job.fit_errors.update(attempt.errors)
    return None


@dataclass(slots=True)
class _PartPlacement:
    """One trial to place a gang. `waiting`: the pending tasks by part. `errors`: the fit errors of tasks that were not placed."""

    session: Session
    job: Job
    waiting: dict[str, list[Task]]
    errors: dict[str, FitErrors] = field(default_factory=dict)

    def place(self, part: GroupPart, within: Bools | None) -> Statement | None:
        """Place the pending tasks of `part` on nodes `within`; None, with everything undone, if it is not ready afterwards."""
        if not part.topology_key:
            return self._place_in(part, within)
        session, job, key = self.session, self.job, part.topology_key
        fill, is_ready = partial(self._place_in, part), partial(self._is_ready, part)
        nodes, count = best_domain(session, job, key, within, fill, is_ready)
        if nodes is not None:
            return self._place_in(part, nodes)
        if self._is_ready(part):
            return session.statement()
        text = f"{NO_DOMAIN}{key} has nodes with room for {part.name}: {count} values were tried"
        self.errors.update({task.uid: FitErrors(text) for task in self._waiting(part) if count or task.uid not in self.errors})
        return None

    def _place_in(self, part: GroupPart, within: Bools | None) -> Statement | None:
        if not part.parts:
            return self._place_members(part, within)
        by_order, by_size = (sorted(part.parts, key=key) for key in (self._rank, partial(lacking, self.job)))
        for parts in [by_order] if by_order == by_size else [by_order, by_size]:  # large parts may leave no room for enough parts
            whole = self.session.statement()
            for each in parts:
                statement = self.place(each, within)
                if statement is not None:
                    whole.merge(statement)
            if self._is_ready(part):
                return whole
            whole.discard()
        return None

    def _place_members(self, part: GroupPart, within: Bools | None) -> Statement | None:
        session, job = self.session, self.job
        tasks = deque(task for task in self.waiting.get(part.name, ()) if session.is_waiting(task))
        whole = session.statement()
        sub_job = job.sub_jobs.get(sub_job_uid(job.facts.key, part.name))
        while tasks and sub_job is not None:
            statement = place(session, job, tasks, sub_job=sub_job, within=within, is_alone=True)
            if statement is None or not statement.moves:
                break
            whole.merge(statement)
            if not sub_job.is_ready:  # the tasks are only pipelined: pipeline no more than the minimum
                break
        self.errors.update(job.fit_errors)
        forget_errors(job)
        if self._is_ready(part):
            return whole
        whole.discard()
        return None

    def _is_ready(self, part: GroupPart) -> bool:
        return self.job.is_part_ready(part) or self.job.is_part_ready(part, pipelined=True)

    def _waiting(self, part: GroupPart) -> list[Task]:
        return [task for path in part.paths() for task in self.waiting.get(path[-1].name, ())]

    def _rank(self, part: GroupPart) -> tuple[bool, Sequence[object]]:
        """Return the sort key of a part: ready parts first, then by the first pending task."""
        waiting = self._waiting(part)
        first = min(map(self.session.task_key, waiting)) if waiting else ()
        return not self.job.is_part_ready(part), first
