"""Action shuffle: evicts pods that a plugin wants to move. Later sessions place the pods that replace the evicted ones."""

from __future__ import annotations

from typing import Final

from pyroclast_scheduler.model.tasks import TaskStatus
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.session import Session

_REASON: Final = "shuffle"


def execute(session: Session, arguments: Arguments) -> None:  # noqa: ARG001 - the action has none
    """Evict the running pods that the plugins select."""
    jobs = [job for job in session.all_jobs().values() if job.tally[TaskStatus.RUNNING]]
    running = [(job, task) for job in jobs for task in job.tasks if task.status is TaskStatus.RUNNING]
    statement = session.statement()
    for job, task in session.victim_tasks(running):
        statement.evict(job, session.plan(task.facts.shape), task, _REASON)
    statement.commit()
