"""Bundles: pods of one job that are evicted together, either pods that the job can spare, or all other pods of its gang."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cmp_to_key

import numpy as np

from pyroclast_scheduler.eviction.part_room import request_of
from pyroclast_scheduler.eviction.victims import compare_queues
from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.session.extension_points import Candidate
from pyroclast_scheduler.session.session import Session

__all__ = ["Bundle", "allowed", "ordered", "split"]


@dataclass(slots=True)
class Bundle:
    """Pods of `job` that are evicted together.

    `is_whole`: whether their eviction breaks the gang, so that the whole job is lost.
    """

    job: Job
    tasks: list[Task]
    is_whole: bool


def split(job: Job, tasks: Sequence[Task]) -> list[Bundle]:
    """Return two bundles: the pods among `tasks` that `job` can spare, and its other pods; the least important pods are spare.

    If the job has fewer pods than its minimum, its gang is broken already and all pods are spare.
    """
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


def ordered(session: Session, job: Job, bundles: Sequence[Bundle], need: Ints, *, is_reclaim: bool) -> list[Bundle]:
    """Return `bundles` in the order of eviction, for room of `need` for `job`."""
    preemptor = session.queues[job.facts.queue]
    known: dict[int, float] = {}

    def worth(bundle: Bundle) -> float:
        if id(bundle) not in known:
            known[id(bundle)] = _worth(session, bundle, need)
        return known[id(bundle)]

    def compare(left: Bundle, right: Bundle) -> int:
        if left.is_whole != right.is_whole:
            return 1 if left.is_whole else -1
        if is_reclaim and left.job.facts.queue != right.job.facts.queue:
            queues = session.queues
            by_queue = compare_queues(session, queues[left.job.facts.queue], queues[right.job.facts.queue], preemptor)
            if by_queue:
                return by_queue
        elif not is_reclaim and left.job is not right.job:
            return -1 if session.job_key(left.job) > session.job_key(right.job) else 1
        keys = [(-worth(each), each.job.facts.uid, each.tasks[0].uid, len(each.tasks)) for each in (left, right)]
        return -1 if keys[0] < keys[1] else int(keys[0] > keys[1])

    return sorted(bundles, key=cmp_to_key(compare))


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


def _worth(session: Session, bundle: Bundle, need: Ints) -> float:
    """Return the ratio of the part of `need` that the bundle frees to the loss; infinite for spare pods."""
    if not bundle.is_whole:
        return float("inf")
    asked = need > 0
    lost, gained = (request_of(session, tasks)[asked] / need[asked] for tasks in (bundle.job.tasks, bundle.tasks))
    cost = float(lost.sum())
    return float(np.minimum(gained, 1).sum()) / cost if cost else float("inf")
