"""Victims: which pods on which nodes could go, which of them first, and whether a task fits once they do."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property, cmp_to_key
from typing import Final

import numpy as np

from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools
from pyroclast_scheduler.model.queues import Queue
from pyroclast_scheduler.model.statuses import TaskStatus
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.placement.plans import PlacementPlan
from pyroclast_scheduler.session.extension_points import Candidate
from pyroclast_scheduler.session.minimum_run_time import MinimumRunTime
from pyroclast_scheduler.session.session import Session

__all__ = ["Residents", "compare_queues", "first_to_go", "has_enough", "may_hold", "needed"]

_PRESENT: Final = frozenset({TaskStatus.BOUND, TaskStatus.RUNNING})
_GOING: Final = frozenset({TaskStatus.RELEASING})


class Residents:
    """The pods of jobs on each node, as they are now. Kept for one action.

    `withheld`: nodes with pods that may go later, once they have run for the minimum.
    """

    def __init__(self, session: Session, minimum: MinimumRunTime | None = None) -> None:
        self.session = session
        self.withheld: set[int] = set()
        self._minimum = minimum
        self._found: dict[int, list[Candidate]] = {}
        self._nowhere = self._mask([])

    @cached_property
    def _by_job(self) -> Mapping[str, Collection[int]]:
        """The nodes of each job's pods."""
        index = self.session.features.jobs.of(self.session.snapshot.residents)
        return {key: rows for jobs in index.values() for key, rows in jobs.items() if key in self.session.snapshot.all_jobs}

    @cached_property
    def _by_queue(self) -> Mapping[str, Bools]:
        jobs = self.session.snapshot.all_jobs
        found: dict[str, list[int]] = {}
        for key, rows in self._by_job.items():
            found.setdefault(jobs[key].queue, []).extend(rows)
        return {queue: self._mask(rows) for queue, rows in found.items()}

    def where(self, queue: str) -> Bools:
        """The nodes that have pods of jobs of `queue`; those that went since are among them. Not to be changed."""
        return self._by_queue.get(queue, self._nowhere)

    def beside(self, queue: str) -> Bools:
        """The same of all other queues."""
        found: Bools = np.logical_or.reduce([self._nowhere, *(mask for name, mask in self._by_queue.items() if name != queue)])
        return found

    def of(self, keep: Callable[[Job], bool]) -> Bools:
        """The same of jobs that pass `keep`."""
        jobs = ((self.session.job(key), rows) for key, rows in self._by_job.items())
        return self._mask([row for job, rows in jobs if job is not None and keep(job) for row in rows])

    def on(self, row: int, keep: Callable[[Job, Task], bool], *, among: frozenset[TaskStatus] = _PRESENT) -> list[Candidate]:
        """Those on node `row` that pass `keep`; `among`: by default the ones that are still there."""
        found = self._found.get(row)
        if found is None:
            session = self.session
            owned = [(session.job(facts.job), facts) for facts in session.snapshot.residents[row]]
            found = self._found[row] = [(job, job.task(facts)) for job, facts in owned if job is not None]
        if among is _PRESENT:
            found = [pair for pair in found if not pair[0].facts.group.spec.is_protected]
        return [(job, task) for job, task in found if task.status in among and task.row == row and keep(job, task)]

    def evictable(self, row: int, job: Job, keep: Callable[[Job, Task], bool]) -> list[Candidate]:
        """Those on node `row` that pass `keep` and have run for long enough to go for `job`."""
        return [each for each in self.on(row, keep) if not self.is_withheld(each, job)]

    def is_withheld(self, candidate: Candidate, job: Job) -> bool:
        """Whether `candidate` has not run for long enough to go for `job`."""
        owner, task = candidate
        if self._minimum is None or not self._minimum.protects(task, owner, job):
            return False
        self.withheld.add(task.row)
        return True

    def _mask(self, rows: list[int]) -> Bools:
        mask = np.zeros(len(self.session.names), dtype=np.bool_)
        mask[np.array(rows, dtype=np.intp)] = True
        return mask

    def going(self, row: int) -> list[Task]:
        """Those of node `row` that are on their way out."""
        return [task for _, task in self.on(row, lambda *_: True, among=_GOING)]


def first_to_go(session: Session, victims: Sequence[Candidate], preemptor: Queue) -> list[Candidate]:
    """`victims` with the one to be evicted first at the front.

    Of one job its last task; of one queue the job that is ordered last; of several queues the one that plugins say, or else the
    one that is ordered last. `preemptor`: the queue that the room is for.
    """

    def compare(left: Candidate, right: Candidate) -> int:
        (job, task), (other_job, other_task) = left, right
        if job is not other_job:
            if job.facts.queue != other_job.facts.queue:
                return compare_queues(session, session.queues[job.facts.queue], session.queues[other_job.facts.queue], preemptor)
            by_job = _later(session.job_order(job), session.job_order(other_job))
            if by_job:
                return by_job
        return _later(session.task_key(task), session.task_key(other_task))

    return sorted(victims, key=cmp_to_key(compare))


def compare_queues(session: Session, left: Queue, right: Queue, preemptor: Queue) -> int:
    """Negative if pods of `left` go before those of `right` when room is made for a pod of `preemptor`."""
    left_key, right_key = session.victim_queue_key(left, preemptor), session.victim_queue_key(right, preemptor)
    if left_key is not None and right_key is not None and left_key != right_key:
        return -1 if left_key < right_key else 1
    return _later(session.queue_key(left), session.queue_key(right))


def may_hold(session: Session, plan: PlacementPlan) -> Bools:
    """Nodes that are large enough for the request of `plan`, beside what is promised there, if all that can go went.

    On any other node `has_enough` holds for no victims.
    """
    columns = session.columns
    room = columns.allocatable[plan.present] - columns.pipelined[plan.present]
    fits: Bools = np.logical_and.reduce(plan.request[plan.present, None] <= room, axis=0)
    return fits


def has_enough(session: Session, plan: PlacementPlan, row: int, victims: Sequence[Candidate]) -> bool:
    """Whether the request of `plan` fits on node `row` once what is releasing and all of `victims` are gone."""
    columns, freed = session.columns, [session.plan(task.facts.shape).request for _, task in victims]
    for dimension in plan.present:
        at = dimension, row
        room = columns.allocatable[at] - columns.used[at] + columns.releasing[at] - columns.pipelined[at]
        if plan.request[dimension] > room + sum(int(request[dimension]) for request in freed):
            return False
    return True


def needed(victims: Sequence[Candidate], is_enough: Callable[[Sequence[Candidate]], bool]) -> list[Candidate]:
    """Those of `victims` that must go, where all of them are enough: none of these could stay. The last ones are spared first."""
    found = list(victims)
    for victim in reversed(victims):
        rest = [each for each in found if each is not victim]
        if is_enough(rest):
            found = rest
    return found


def _later(left: tuple[object, ...], right: tuple[object, ...]) -> int:
    """Negative if `left` is ordered after `right`, and so goes first."""
    return -1 if left > right else 1 if left < right else 0
