"""Units of pods that are evicted all together or not at all, on any nodes: the pods of a gang or of a part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.statuses import ALLOCATED, EVICTABLE
from pyroclast_scheduler.model.tasks import Task

Candidate = tuple[Job, Task]
_Unit = tuple[str, str]
_WHOLE: Final = "*"


def goes_whole(job: Job, task: Task) -> bool:
    """Whether other pods are evicted together with `task`."""
    return bool(_name(job, task))


def unit_of(job: Job, task: Task) -> list[Task]:
    """Return the pods that are evicted together with `task` of `job`, `task` first.

    The list has only `task` unless its gang or one of its parts is evicted as a whole.
    """
    name = _name(job, task)
    if not name:
        return [task]
    return [task, *(each for each in _members(job, name) if each is not task and each.status in EVICTABLE)]


def agreed_whole(
    candidates: Sequence[Candidate], vote: Callable[[Sequence[Candidate]], list[Candidate]], preemptor: Job
) -> list[Candidate]:
    """Return those of `candidates` that `vote` selects; pods of a unit only if `vote` selects the whole unit.

    A unit is not evicted for a pod of its own gang, nor while one of its pods is being bound.
    """
    owners = {unit: owner for owner, task in candidates if (unit := _unit(owner, task)) is not None}
    if not owners:
        return vote(candidates)
    members = {unit: _members(owner, unit[1]) for unit, owner in owners.items()}
    barred = {unit for unit, owner in owners.items() if owner is preemptor or not _may_go(members[unit])}
    asked = [pair for pair in candidates if _unit(*pair) not in barred]
    known = {task.uid for _, task in asked}
    present = {
        unit: [task for task in tasks if task.status in EVICTABLE] for unit, tasks in members.items() if unit not in barred
    }
    others = [(owners[unit], task) for unit, tasks in present.items() for task in tasks if task.uid not in known]
    chosen = vote([*asked, *others])
    agreed = {task.uid for _, task in chosen}
    broken = {unit for unit, tasks in present.items() if any(task.uid not in agreed for task in tasks)}
    return [pair for pair in chosen if pair[1].uid in known and _unit(*pair) not in broken]


def _unit(job: Job, task: Task) -> _Unit | None:
    name = _name(job, task)
    return (job.facts.key, name) if name else None


def _name(job: Job, task: Task) -> str:
    """Return the name of the largest part evicted as a whole that contains `task`; empty if there is none."""
    spec = job.facts.group.spec
    if spec.tree is None:
        return _WHOLE if spec.evicts_whole else ""
    return next((part.name for part in job.path(task.facts.part) if part.evicts_whole), "")


def _members(job: Job, name: str) -> list[Task]:
    return [task for task in job.tasks if _name(job, task) == name]


def _may_go(tasks: Sequence[Task]) -> bool:
    """Whether every allocated task of `tasks` could be evicted now."""
    return all(task.status in EVICTABLE and task.facts.is_preemptable for task in tasks if task.status in ALLOCATED)
