"""Victims: the possible victims on nodes, their order, and whether a task fits after their eviction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property, cmp_to_key
from typing import Final

import numpy as np

from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools, Rows
from pyroclast_scheduler.model.queues import Queue
from pyroclast_scheduler.model.statuses import TaskStatus
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.placement.plans import PlacementPlan
from pyroclast_scheduler.session.extension_points import Candidate, Preemptor
from pyroclast_scheduler.session.minimum_run_time import MinimumRunTime
from pyroclast_scheduler.session.session import Session

__all__ = ["Residents", "compare_queues", "first_to_go", "has_enough", "may_hold", "needed", "would_fit"]

_PRESENT: Final = frozenset({TaskStatus.BOUND, TaskStatus.RUNNING})
_GOING: Final = frozenset({TaskStatus.RELEASING})
_FEW: Final = 64  # nodes; a search over fewer nodes asks about the pods of each
_JOBS_PER_NODE: Final = 4  # jobs that can be asked about in the time that the pods of a node take


class Residents:
    """The pods of jobs on each node in the present state, for one action.

    `withheld`: the nodes with pods that may be evicted later, after their minimum run time.
    """

    def __init__(self, session: Session, minimum: MinimumRunTime | None = None) -> None:
        self.session = session
        self.withheld: set[int] = set()
        self._minimum = minimum
        self._found: dict[int, list[Candidate]] = {}
        self._nowhere = self._mask([])
        self._losing: dict[tuple[Preemptor, bool], tuple[int, Bools]] = {}

    @cached_property
    def _by_job(self) -> Mapping[str, Collection[int]]:
        """The rows of the nodes on which each job has pods."""
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
        """Return a mask of the nodes with pods of jobs of `queue`, including nodes that pods have left in this session.

        The caller must not change the mask.
        """
        return self._by_queue.get(queue, self._nowhere)

    def beside(self, queue: str) -> Bools:
        """Return a mask of the nodes with pods of jobs of other queues than `queue`."""
        found: Bools = np.logical_or.reduce([self._nowhere, *(mask for name, mask in self._by_queue.items() if name != queue)])
        return found

    def of(self, keep: Callable[[Job], bool]) -> Bools:
        """Return a mask of the nodes with pods of jobs for which `keep` is true."""
        jobs = ((self.session.job(key), rows) for key, rows in self._by_job.items())
        return self._mask([row for job, rows in jobs if job is not None and keep(job) for row in rows])

    def promising(
        self,
        rows: Sequence[int],
        job: Job,
        *,
        is_reclaim: bool,
        besides: Bools,
        skip: Callable[[Rows], None],
    ) -> Iterator[int]:
        """Yield those of `rows`, in order, on which the plugins may select victims for `job`, and those in `besides`.

        The first rows are not checked, since most searches end there. `skip`: called with the rows that are passed over.
        """
        is_long = len(rows) > max(_FEW, len(self._by_job) // _JOBS_PER_NODE)
        first = rows[: _FEW // 4] if is_long else rows
        yield from first
        if is_long:
            may_help = besides | self._where_may_lose(Preemptor(job.facts.queue, job.facts.priority), is_reclaim=is_reclaim)
            rest = np.array(rows[len(first) :], dtype=np.intp)
            skip(rest[~may_help[rest]])
            yield from rest[may_help[rest]].tolist()

    def _where_may_lose(self, preemptor: Preemptor, *, is_reclaim: bool) -> Bools:
        """Return a mask of the nodes with pods of jobs that may lose pods now, in the queue of `preemptor` or in others."""
        session, state = self.session, self.session.moves.state
        known = self._losing.get((preemptor, is_reclaim))
        if known is not None and known[0] == state:
            return known[1]
        facts = session.snapshot.all_jobs
        there = ((key, rows) for key, rows in self._by_job.items() if (facts[key].queue != preemptor.queue) is is_reclaim)
        jobs = ((session.job(key), rows) for key, rows in there)
        found = self._mask([row for job, rows in jobs if job is not None and session.may_lose(job, preemptor) for row in rows])
        self._losing[preemptor, is_reclaim] = state, found
        return found

    def on(self, row: int, keep: Callable[[Job, Task], bool], *, among: frozenset[TaskStatus] = _PRESENT) -> list[Candidate]:
        """Return the pods on node `row` for which `keep` is true. `among`: their statuses, by default bound and running."""
        found = self._found.get(row)
        if found is None:
            session = self.session
            owned = [(session.job(facts.job), facts) for facts in session.snapshot.residents[row]]
            found = self._found[row] = [(job, job.task(facts)) for job, facts in owned if job is not None]
        if among is _PRESENT:
            found = [pair for pair in found if not pair[0].facts.group.spec.is_protected]
        return [(job, task) for job, task in found if task.status in among and task.row == row and keep(job, task)]

    def evictable(self, row: int, job: Job, keep: Callable[[Job, Task], bool]) -> list[Candidate]:
        """Return the pods on node `row` for which `keep` is true and whose minimum run time allows eviction for `job`."""
        return [each for each in self.on(row, keep) if not self.is_withheld(each, job)]

    def is_withheld(self, candidate: Candidate, job: Job) -> bool:
        """Whether the minimum run time protects `candidate` from eviction for `job`."""
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
        """Return the tasks of the pods on node `row` that are being deleted."""
        return [task for _, task in self.on(row, lambda *_: True, among=_GOING)]


def first_to_go(session: Session, victims: Sequence[Candidate], preemptor: Queue) -> list[Candidate]:
    """Return `victims` in the order of eviction. `preemptor`: the queue for which pods are evicted.

    In one job the last task is evicted first, and in one queue the last job. Among several queues, the plugins decide, or else
    the last queue is first.
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
    """Return a negative number if pods of `left` are evicted before those of `right` for a pod of `preemptor`."""
    left_key, right_key = session.victim_queue_key(left, preemptor), session.victim_queue_key(right, preemptor)
    if left_key is not None and right_key is not None and left_key != right_key:
        return -1 if left_key < right_key else 1
    return _later(session.queue_key(left), session.queue_key(right))


def may_hold(session: Session, plan: PlacementPlan) -> Bools:
    """Return a mask of the nodes that could hold the request of `plan` if all pods except pipelined ones were evicted.

    On any other node `has_enough` is false for every set of victims.
    """
    columns = session.columns
    room = columns.allocatable[plan.present] - columns.pipelined[plan.present]
    fits: Bools = np.logical_and.reduce(plan.request[plan.present, None] <= room, axis=0)
    return fits


def would_fit(session: Session, plan: PlacementPlan) -> Bools:
    """Return a mask of the nodes on which the request of `plan` fits after all releasing pods are gone, without evictions."""
    room = session.columns.future_idle()[plan.present]
    fits: Bools = np.logical_and.reduce(plan.request[plan.present, None] <= room)
    return fits


def has_enough(session: Session, plan: PlacementPlan, row: int, victims: Sequence[Candidate]) -> bool:
    """Whether the request of `plan` fits on node `row` after all releasing pods and `victims` are gone."""
    columns, freed = session.columns, [session.plan(task.facts.shape).request for _, task in victims]
    for dimension in plan.present:
        at = dimension, row
        room = columns.allocatable[at] - columns.used[at] + columns.releasing[at] - columns.pipelined[at]
        if plan.request[dimension] > room + sum(int(request[dimension]) for request in freed):
            return False
    return True


def needed(victims: Sequence[Candidate], is_enough: Callable[[Sequence[Candidate]], bool]) -> list[Candidate]:
    """Return a minimal subset of `victims` for which `is_enough` is true. Victims at the end of the list are left out first."""
    found = list(victims)
    for victim in reversed(victims):
        rest = [each for each in found if each is not victim]
        if is_enough(rest):
            found = rest
    return found


def _later(left: tuple[object, ...], right: tuple[object, ...]) -> int:
    """Return a negative number if `left` is ordered after `right`, so that it is evicted first."""
    return -1 if left > right else 1 if left < right else 0
