"""Plugin gang: a job starts with enough members or not at all, and says why when it waits."""

from __future__ import annotations

from collections.abc import Sequence

from pyroclast.api.enums import PodGroupConditionReason, PodGroupConditionType
from pyroclast_scheduler.framework.arguments import Arguments
from pyroclast_scheduler.framework.jobs import Condition, Job, Task
from pyroclast_scheduler.framework.plugin import Hooks, Vote
from pyroclast_scheduler.framework.points import Point
from pyroclast_scheduler.framework.session import Session
from pyroclast_scheduler.model.statuses import ALLOCATED, TaskStatus

__all__ = ["Gang", "is_left_alone"]


class Gang:
    """No arguments."""

    def __init__(self, arguments: Arguments) -> None:
        del arguments

    def open(self, session: Session) -> Hooks:
        """Register."""
        return {
            Point.JOB_ORDER: lambda job: job.is_ready,
            Point.JOB_READY: lambda job: job.is_ready and job.are_roles_ready(),
            Point.JOB_PIPELINED: _pipelined,
            Point.JOB_STARVING: lambda job: job.is_starving,
            Point.JOB_VALID: _invalid,
            Point.PREEMPTABLE: _surplus,
            Point.RECLAIMABLE: _surplus,
            Point.CLOSE: lambda: _close(session),
        }


def is_left_alone(job: Job) -> bool:
    """Whether a job that is not ready says nothing: its members were all placed and some are merely going."""
    tally, going = job.tally, job.facts.releasing_on_node
    if not going or tally[TaskStatus.PENDING] or tally[TaskStatus.PIPELINED]:
        return False
    return tally.scheduled + going >= job.facts.min_available


def _pipelined(job: Job) -> Vote:
    return Vote.PERMIT if job.is_pipelined and job.are_roles_ready(pipelined=True) else Vote.REJECT


def _invalid(job: Job) -> tuple[str, str] | None:
    if job.enforces_roles and any(job.tally.role_valid(role) < least for role, least in job.facts.role_minimum.items()):
        return PodGroupConditionReason.NOT_ENOUGH_PODS_OF_TASK, "Not enough valid pods of each task for gang-scheduling"
    valid, least = job.tally.valid, job.facts.min_available
    if valid < least:
        return (
            PodGroupConditionReason.NOT_ENOUGH_TASKS,
            f"Not enough valid tasks for gang-scheduling, valid: {valid}, min: {least}",
        )
    return None


def _surplus(preemptor: Task, job: Job, candidates: Sequence[tuple[Job, Task]]) -> list[tuple[Job, Task]]:
    """Candidates that their jobs can spare without falling below their minimum."""
    del preemptor, job
    left: dict[str, int] = {}
    chosen: list[tuple[Job, Task]] = []
    for owner, task in candidates:
        ready = left.get(owner.facts.key, owner.tally.ready)
        if ready > owner.facts.min_available:
            left[owner.facts.key] = ready - 1
            chosen.append((owner, task))
    return chosen


def _close(session: Session) -> None:
    for job in session.jobs.values():
        if not job.facts.tasks:
            continue
        if job.is_ready:
            job.conditions[PodGroupConditionType.SCHEDULED] = Condition(
                PodGroupConditionType.SCHEDULED, PodGroupConditionReason.READY
            )
        elif not is_left_alone(job):
            tried = sum(
                task.status is TaskStatus.PENDING and (task.last or (task.status,))[0] in ALLOCATED
                for task in (job.tasks if job.was_touched else ())
            )
            lacking = job.facts.min_available - job.tally.ready - tried
            message = f"{lacking}/{len(job.facts.tasks)} tasks in gang unschedulable: {job.fit_error(session.names)}"
            job.conditions[PodGroupConditionType.UNSCHEDULABLE] = Condition(
                PodGroupConditionType.UNSCHEDULABLE, PodGroupConditionReason.NOT_ENOUGH_RESOURCES, message
            )
