"""Action gangreclaim: evicts gangs of other queues for a whole gang. It must not be combined with reclaim."""

from __future__ import annotations

from pyroclast_scheduler.eviction.gangs import GangKind, make_room
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.tasks import Task, TaskStatus
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.extension_points import Preemptor
from pyroclast_scheduler.session.session import Session


def execute(session: Session, arguments: Arguments) -> None:
    """Evict pods for starving jobs from other queues that are reclaimable."""

    def may_lose(owner: Job, preemptor: Preemptor) -> bool:
        is_other = owner.facts.queue != preemptor.queue and session.queues[owner.facts.queue].facts.is_reclaimable
        return is_other and (owner.facts.may_be_preempted or session.is_low(owner))

    def may_go(owner: Job, task: Task) -> bool:
        return task.status is TaskStatus.RUNNING and session.is_preemptable(owner, task)

    make_room(session, arguments, GangKind("gangreclaim", is_reclaim=True, may_lose=may_lose, may_go=may_go))
