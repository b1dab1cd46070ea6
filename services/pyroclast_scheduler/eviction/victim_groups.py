"""Bundles: pods of one job that are evicted together, either pods that the job can spare, or all other pods of its gang."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Final

import numpy as np

from pyroclast_scheduler.eviction.part_room import request_of
from pyroclast_scheduler.eviction.victims import compare_queues
from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.session.extension_points import Candidate
from pyroclast_scheduler.session.session import Session

_DIGITS: Final = 12
"""Of ratios; what differs only in later digits is equal."""


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


def _worth(session: Session, bundle: Bundle, need: Ints) -> float:
    """Return the ratio of the part of `need` that the bundle frees to the loss; infinite for spare pods."""
    if not bundle.is_whole:
        return float("inf")
    asked = need > 0
    lost, gained = (request_of(session, tasks)[asked] / need[asked] for tasks in (bundle.job.tasks, bundle.tasks))
    cost = float(lost.sum())
    return round(float(np.minimum(gained, 1).sum()) / cost, _DIGITS) if cost else float("inf")
