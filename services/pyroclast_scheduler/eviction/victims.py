"""Victims: the possible victims on nodes, their order, and whether a task fits after their eviction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cmp_to_key
from typing import Final

from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.queues import Queue
from pyroclast_scheduler.model.statuses import EVICTABLE, TaskStatus
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.placement.plans import PlacementPlan
from pyroclast_scheduler.session.extension_points import Candidate
from pyroclast_scheduler.session.minimum_run_time import MinimumRunTime
from pyroclast_scheduler.session.session import Session

_GOING: Final = frozenset({TaskStatus.RELEASING})


class Residents:
    """The pods of jobs on each node in the present state, for one action.

    `withheld`: the nodes with pods that may be evicted later, after their minimum run time.
    """

    def __init__(self, session: Session, minimum: MinimumRunTime | None = None) -> None:
        self.session = session
        self.withheld: set[int] = set()
        self._minimum = minimum
        self._found: dict[int, list[Candidate]] = {}

    def on(self, row: int, keep: Callable[[Job, Task], bool], *, among: frozenset[TaskStatus] = EVICTABLE) -> list[Candidate]:
        """Return the pods on node `row` for which `keep` is true. `among`: their statuses, by default bound and running."""
        found = self._found.get(row)
        if found is None:
            session = self.session
            owned = [(session.job(facts.job), facts) for facts in session.snapshot.residents[row]]
            found = self._found[row] = [(job, job.task(facts)) for job, facts in owned if job is not None]
        if among is EVICTABLE:
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

    def going(self, row: int) -> list[Task]:
        """Return the tasks of the pods on node `row` that are being deleted."""
        return [task for _, task in self.on(row, lambda *_: True, among=_GOING)]


def first_to_go(session: Session, victims: Sequence[Candidate], preemptor: Queue) -> list[Candidate]:
    """Return `victims` in the order of eviction. `preemptor`: the queue for which pods are evicted.

    In one job the last task is evicted first, and in one queue the last job. Among several queues, the plugins decide, or else
    the last queue is first.
    """
    job_orders = {job.facts.key: session.job_order(job) for job, _ in victims}
    task_keys = {task.uid: session.task_key(task) for _, task in victims}

    def compare(left: Candidate, right: Candidate) -> int:
        (job, task), (other_job, other_task) = left, right
        if job is not other_job:
            if job.facts.queue != other_job.facts.queue:
                return compare_queues(session, session.queues[job.facts.queue], session.queues[other_job.facts.queue], preemptor)
            by_job = _later(job_orders[job.facts.key], job_orders[other_job.facts.key])
            if by_job:
                return by_job
        return _later(task_keys[task.uid], task_keys[other_task.uid])

    return sorted(victims, key=cmp_to_key(compare))


def compare_queues(session: Session, left: Queue, right: Queue, preemptor: Queue) -> int:
    """Return a negative number if pods of `left` are evicted before those of `right` for a pod of `preemptor`."""
    left_key, right_key = session.victim_queue_key(left, preemptor), session.victim_queue_key(right, preemptor)
    if left_key is not None and right_key is not None and left_key != right_key:
        return -1 if left_key < right_key else 1
    return _later(session.queue_key(left), session.queue_key(right))


def has_enough(session: Session, plan: PlacementPlan, row: int, victims: Sequence[Candidate]) -> bool:
    """Whether the request of `plan` fits on node `row` after all releasing pods and `victims` are gone."""
    columns = session.columns
    for dimension in plan.present:
        at = dimension, row
        room = columns.allocatable[at] - columns.used[at] + columns.releasing[at] - columns.pipelined[at]
        lack = int(plan.request[dimension] - room)
        if lack > 0 and lack > sum(int(session.plan(task.facts.shape).request[dimension]) for _, task in victims):
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
