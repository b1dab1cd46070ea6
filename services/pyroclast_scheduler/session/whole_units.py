"""Gangs whose pods are evicted all together or not at all, wherever in the cluster they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.statuses import ALLOCATED, TaskStatus
from pyroclast_scheduler.model.tasks import Task

__all__ = ["agreed_whole", "unit_of"]

Candidate = tuple[Job, Task]
_PRESENT: Final = frozenset({TaskStatus.BOUND, TaskStatus.RUNNING})


def unit_of(job: Job, task: Task) -> list[Task]:
    """The pods that go with `task` of `job`, itself first; only itself unless its gang goes whole."""
    if not job.facts.group.spec.evicts_whole:
        return [task]
    return [task, *(each for each in job.tasks if each is not task and each.status in _PRESENT)]


def agreed_whole(
    candidates: Sequence[Candidate], vote: Callable[[Sequence[Candidate]], list[Candidate]], preemptor: Job
) -> list[Candidate]:
    """Those of `candidates` that `vote` agrees to; of a gang that goes whole only if it agrees to all of its pods.

    None of such a gang goes for a pod of its own, nor while some of its pods are on their way to a node.
    """
    wholes = {owner.facts.key: owner for owner, _ in candidates if owner.facts.group.spec.evicts_whole}
    if not wholes:
        return vote(candidates)
    barred = {key for key, owner in wholes.items() if owner is preemptor or not _may_go(owner)}
    asked = [pair for pair in candidates if pair[0].facts.key not in barred]
    known = {task.uid for _, task in asked}
    members = {key: _members(owner) for key, owner in wholes.items() if key not in barred}
    others = [(wholes[key], task) for key, tasks in members.items() for task in tasks if task.uid not in known]
    chosen = vote([*asked, *others])
    agreed = {task.uid for _, task in chosen}
    broken = {key for key, tasks in members.items() if any(task.uid not in agreed for task in tasks)}
    return [pair for pair in chosen if pair[1].uid in known and pair[0].facts.key not in broken]


def _members(job: Job) -> list[Task]:
    return [task for task in job.tasks if task.status in _PRESENT]


def _may_go(job: Job) -> bool:
    """Whether every pod of `job` that has a place could be evicted now."""
    return all(task.status in _PRESENT and task.facts.is_preemptable for task in job.tasks if task.status in ALLOCATED)
