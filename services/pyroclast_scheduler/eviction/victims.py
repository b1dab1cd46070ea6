"""Victims: the possible victims on nodes or as bundles of a job, their order, and whether a task fits after their eviction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Final

import numpy as np

from pyroclast_scheduler.eviction.part_room import request_of
from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.queues import Queue
from pyroclast_scheduler.model.tasks import EVICTABLE, Task, TaskStatus
from pyroclast_scheduler.placement.plans import PlacementPlan
from pyroclast_scheduler.session.extension_points import Candidate
from pyroclast_scheduler.session.minimum_run_time import MinimumRunTime
from pyroclast_scheduler.session.plugin_session import PluginSession
from pyroclast_scheduler.session.statement import goes_whole, unit_of

_GOING: Final = frozenset({TaskStatus.RELEASING})


class Residents:
    """The pods on each node in the present state. `withheld`: the nodes with pods that only their minimum run time protects."""

    def __init__(self, session: PluginSession, minimum: MinimumRunTime | None = None) -> None:
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


def first_to_go(session: PluginSession, victims: Sequence[Candidate], preemptor: Queue) -> list[Candidate]:
    """Return `victims` in the order of eviction for pods of the queue `preemptor`.

    In one job the last task is evicted first, and in one queue the last job. Among several queues, the plugins decide, or else
    the last queue is first. Of two jobs with the same priority, the one of which fewer pods go together is first.
    """
    sizes = {task.uid: len(unit_of(job, task)) for job, task in victims if goes_whole(job, task)}
    job_orders = {job.facts.key: session.job_order(job) for job, _ in victims}
    task_keys = {task.uid: session.task_key(task) for _, task in victims}

    def compare(left: Candidate, right: Candidate) -> int:
        (job, task), (other_job, other_task) = left, right
        if job is not other_job:
            if job.facts.queue != other_job.facts.queue:
                return compare_queues(session, session.queues[job.facts.queue], session.queues[other_job.facts.queue], preemptor)
            by_size = sizes.get(task.uid, 1) - sizes.get(other_task.uid, 1)
            if by_size and job.facts.priority == other_job.facts.priority:
                return by_size
            by_job = _later(job_orders[job.facts.key], job_orders[other_job.facts.key])
            if by_job:
                return by_job
        return _later(task_keys[task.uid], task_keys[other_task.uid])

    return sorted(victims, key=cmp_to_key(compare))


def compare_queues(session: PluginSession, left: Queue, right: Queue, preemptor: Queue) -> int:
    """Return a negative number if pods of `left` are evicted before those of `right` for a pod of `preemptor`."""
    left_key, right_key = session.victim_queue_key(left, preemptor), session.victim_queue_key(right, preemptor)
    if left_key is not None and right_key is not None and left_key != right_key:
        return -1 if left_key < right_key else 1
    return _later(session.queue_key(left), session.queue_key(right))


_SHIFT: Final = 2**31  # makes every priority positive, so that each victim counts


def loss_rank(victims: Iterable[Task], now: float) -> tuple[float, ...]:
    """Return the sort key of a loss, smallest first, in the order in which kube-scheduler compares nodes.

    The order is: the highest priority, the sum of the priorities, the number of pods, the latest start of the highest ones.
    Budgets are not compared: the plugin pdb allows no victim whose budget would be broken.
    """
    listed = [(task.facts.pod.spec.priority or 0, task.facts.started or now) for task in victims]
    if not listed:
        return (float("-inf"),)
    highest = max(priority for priority, _ in listed)
    first = min(started for priority, started in listed if priority == highest)
    return (highest, sum(priority + _SHIFT for priority, _ in listed), len(listed), -first)


def has_enough(session: PluginSession, plan: PlacementPlan, row: int, victims: Sequence[Candidate]) -> bool:
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
    kept = list(victims)
    for victim in reversed(victims):
        rest = [each for each in kept if each is not victim]
        kept = rest if is_enough(rest) else kept
    return kept


def _later(left: tuple[object, ...], right: tuple[object, ...]) -> int:
    """Return a negative number if `left` is ordered after `right`, so that it is evicted first."""
    return -1 if left > right else 1 if left < right else 0


_DIGITS: Final = 12
"""Of ratios; what differs only in later digits is equal."""


@dataclass(slots=True)
class Bundle:
    """Pods of `job` that are evicted together. `is_whole`: whether this breaks the gang, so that the whole job is lost."""

    job: Job
    tasks: list[Task]
    is_whole: bool


def split(job: Job, tasks: Sequence[Task]) -> list[Bundle]:
    """Return the pods among `tasks` that `job` can spare, the least important ones, and the others. A broken job spares all."""
    listed = sorted(tasks, key=lambda task: (task.facts.priority, task.uid))
    surplus = job.tally.ready - job.facts.min_available
    if surplus < 0:
        return [Bundle(job, listed, is_whole=False)]
    roles = (
        {role: job.tally.role_ready(role) - least for role, least in job.facts.role_minimum.items()} if job.enforces_roles else {}
    )
    groups = _spare_groups(job)
    broken = {uid for uid, each in job.sub_jobs.items() if not each.is_ready} if groups else set()
    safe: list[Task] = []
    whole: list[Task] = []
    for task in listed:
        role = task.facts.role
        sub_job = job.sub_job_of(task) if groups else None
        is_group_safe = sub_job is None or sub_job.uid in broken or groups.get(sub_job.group, 1) > 0
        if surplus <= 0 or roles.get(role, 1) <= 0 or not is_group_safe:
            whole.append(task)
            continue
        safe.append(task)
        surplus -= 1
        if role in roles:
            roles[role] -= 1
        if sub_job is not None and sub_job.uid not in broken:
            broken.add(sub_job.uid)
            if sub_job.group in groups:
                groups[sub_job.group] -= 1
    return [Bundle(job, each, is_whole) for each, is_whole in ((safe, False), (whole, True)) if each]


def ordered(session: PluginSession, job: Job, bundles: Sequence[Bundle], need: Ints, *, is_reclaim: bool) -> list[Bundle]:
    """Return `bundles`, at most two per job, in the order of eviction for room of `need` for `job`: spare pods first.

    In one queue the last job is evicted first. Among several queues, the queues are in order, and in each the bundles that free
    most for what is lost.
    """
    if not is_reclaim:
        owners = {each.job.facts.key: each.job for each in bundles}
        last_first = sorted(owners.values(), key=session.job_key, reverse=True)
        places = {owner.facts.key: i for i, owner in enumerate(last_first)}
        return sorted(bundles, key=lambda each: (each.is_whole, places[each.job.facts.key]))
    queues, preemptor = session.queues, session.queues[job.facts.queue]

    def compare(left: str, right: str) -> int:
        return compare_queues(session, queues[left], queues[right], preemptor)

    names = sorted({each.job.facts.queue for each in bundles}, key=cmp_to_key(compare))
    places = {name: i for i, name in enumerate(names)}

    def key(bundle: Bundle) -> tuple[object, ...]:
        facts = bundle.job.facts
        return bundle.is_whole, places[facts.queue], -_worth(session, bundle, need), facts.uid

    return sorted(bundles, key=key)


def allowed(bundles: Sequence[Bundle], candidates: Sequence[Candidate]) -> list[Bundle]:
    """Return the bundles limited to `candidates`. A whole bundle is kept only if all its pods are candidates; others shrink."""
    uids = {task.uid for _, task in candidates}
    kept: list[Bundle] = []
    for each in bundles:
        tasks = [task for task in each.tasks if task.uid in uids]
        if tasks and (not each.is_whole or len(tasks) == len(each.tasks)):
            kept.append(Bundle(each.job, tasks, each.is_whole))
    return kept


def _spare_groups(job: Job) -> dict[str, int]:
    """Return the number of ready sub-jobs beyond the minimum, by policy with a minimum number of sub-jobs."""
    policies = {f"{job.facts.key}/{each.name}": each.min_sub_groups for each in job.facts.group.spec.sub_group_policy}
    if not any(policies.values()):
        return {}
    ready = Counter(each.group for each in job.sub_jobs.values() if each.is_ready)
    return {group: ready[group] - least for group, least in policies.items() if least}


def _worth(session: PluginSession, bundle: Bundle, need: Ints) -> float:
    """Return the ratio of the part of `need` that the bundle frees to the loss; infinite for spare pods."""
    if not bundle.is_whole:
        return float("inf")
    asked = need > 0
    lost, gained = (request_of(session, tasks)[asked] / need[asked] for tasks in (bundle.job.tasks, bundle.tasks))
    cost = float(lost.sum())
    return round(float(np.minimum(gained, 1).sum()) / cost, _DIGITS) if cost else float("inf")
