"""Plugin priority: what matters more goes first, and may take the place of what matters less."""

from __future__ import annotations

from collections.abc import Sequence

from pyroclast_scheduler.framework.arguments import Arguments
from pyroclast_scheduler.framework.jobs import Job, Task
from pyroclast_scheduler.framework.plugin import Hooks
from pyroclast_scheduler.framework.points import Point
from pyroclast_scheduler.framework.session import Session
from pyroclast_scheduler.model.statuses import TaskStatus

__all__ = ["Priority"]


class Priority:
    """No arguments."""

    def __init__(self, arguments: Arguments) -> None:
        del arguments

    def open(self, session: Session) -> Hooks:
        """Register."""
        del session
        return {
            Point.TASK_ORDER: lambda task: -task.facts.priority,
            Point.JOB_ORDER: lambda job: -job.facts.priority,
            Point.JOB_STARVING: lambda job: job.tally.ready + job.tally[TaskStatus.PIPELINED] < len(job.facts.tasks),
            Point.PREEMPTABLE: _lower,
        }


def _lower(preemptor: Task, job: Job, candidates: Sequence[tuple[Job, Task]]) -> list[tuple[Job, Task]]:
    """Tasks of jobs of lower priority, and of the same job tasks of lower priority."""
    return [
        (owner, task)
        for owner, task in candidates
        if (task.facts.priority < preemptor.facts.priority if owner is job else owner.facts.priority < job.facts.priority)
    ]
