"""Action gangreclaim: between queues, gangs make room for a gang of another queue as a whole. Not to be used with reclaim."""

from __future__ import annotations

from pyroclast_scheduler.eviction.gangs import Kind, make_room
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.statuses import TaskStatus
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.session import Session

__all__ = ["execute"]


def execute(session: Session, arguments: Arguments) -> None:
    """Make room for starving jobs at the cost of other queues that may be reclaimed from."""

    def may_go(job: Job, owner: Job, task: Task) -> bool:
        is_other = owner.facts.queue != job.facts.queue and session.queues[owner.facts.queue].facts.is_reclaimable
        is_running = task.status is TaskStatus.RUNNING
        return is_other and is_running and task.facts.is_preemptable and owner.facts.may_be_preempted

    make_room(session, arguments, Kind("gangreclaim", is_reclaim=True, may_go=may_go))
