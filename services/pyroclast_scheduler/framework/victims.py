"""Victims: which pods on which nodes could go, which of them first, and whether a task fits once they do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cmp_to_key
from typing import Final

import numpy as np

from pyroclast_scheduler.framework.jobs import Job, Task
from pyroclast_scheduler.framework.placer import coupled_refusals
from pyroclast_scheduler.framework.plans import Plan
from pyroclast_scheduler.framework.reasons import Code
from pyroclast_scheduler.framework.session import Session
from pyroclast_scheduler.model.columns import Bools
from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.statuses import TaskStatus

__all__ = ["Candidate", "Residents", "first_to_go", "fits_when_free", "has_enough", "resolvable"]

Candidate = tuple[Job, Task]
_PRESENT: Final = frozenset({TaskStatus.BOUND, TaskStatus.RUNNING})


@dataclass(slots=True)
class Residents:
    """The pods of jobs on each node, as they are now. Made once for an action, since it looks at all jobs."""

    session: Session
    _by_row: dict[int, list[Candidate]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for job in self.session.jobs.values():
            if any(job.tally[status] for status in _PRESENT):
                for task in job.tasks:
                    if task.status in _PRESENT and task.row >= 0:
                        self._by_row.setdefault(task.row, []).append((job, task))

    def on(self, row: int, keep: Callable[[Job, Task], bool]) -> list[Candidate]:
        """Those on node `row` that are still there and pass `keep`."""
        return [(job, task) for job, task in self._by_row.get(row, ()) if task.status in _PRESENT and keep(job, task)]

    def going(self, row: int) -> list[Task]:
        """Those of node `row` that are on their way out."""
        return [
            task
            for job in self.session.jobs.values()
            if job.tally[TaskStatus.RELEASING]
            for task in job.tasks
            if task.status is TaskStatus.RELEASING and task.row == row
        ]


def first_to_go(session: Session, victims: Sequence[Candidate]) -> list[Candidate]:
    """`victims` with the one to be evicted first at the front.

    Of one job its last task; of one queue the job that is ordered last; of several queues the queue that is ordered last.
    """

    def compare(left: Candidate, right: Candidate) -> int:
        (job, task), (other_job, other_task) = left, right
        if job is not other_job:
            if job.facts.queue != other_job.facts.queue:
                queues = session.queues
                return _later(session.queue_key(queues[job.facts.queue]), session.queue_key(queues[other_job.facts.queue]))
            by_job = _later(session.job_order(job), session.job_order(other_job))
            if by_job:
                return by_job
        return _later(session.task_key(task), session.task_key(other_task))

    return sorted(victims, key=cmp_to_key(compare))


def has_enough(session: Session, plan: Plan, row: int, victims: Sequence[Candidate]) -> bool:
    """Whether the request of `plan` fits on node `row` once what is releasing and all of `victims` are gone."""
    rows = np.array([row], dtype=np.intp)
    room: Ints = session.columns.future_idle(rows)[:, 0]
    for _, task in victims:
        room = room + session.plan(task.facts.shape).request
    return bool((plan.request[plan.present] <= room[plan.present]).all())


def fits_when_free(session: Session, plan: Plan, task: Task, row: int) -> bool:
    """Whether `task` could be promised node `row` as things are now."""
    rows = np.array([row], dtype=np.intp)
    if not plan.room(rows, future=True)[0]:
        return False
    return not any(refusal.nodes[row] for refusal in coupled_refusals(session, plan, task) or ())


def resolvable(session: Session, plan: Plan, task: Task) -> Bools:
    """Nodes on which `task` could fit if some pods went."""
    mask = plan.mask
    for refusal in coupled_refusals(session, plan, task) or ():
        if refusal.code is not Code.UNSCHEDULABLE:
            mask = mask & ~refusal.nodes
    return mask


def _later(left: tuple[object, ...], right: tuple[object, ...]) -> int:
    """Negative if `left` is ordered after `right`, and so goes first."""
    return -1 if left > right else 1 if left < right else 0
