"""Action gangpreempt: in one queue, evicts gangs of lower priority for a whole gang. It must not be combined with preempt."""

from __future__ import annotations

from pyroclast_scheduler.eviction.gangs import GangKind, make_room
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.extension_points import Preemptor
from pyroclast_scheduler.session.session import Session


def execute(session: Session, arguments: Arguments) -> None:
    """Evict pods for starving jobs from jobs of the same queue."""

    def may_lose(owner: Job, preemptor: Preemptor) -> bool:
        is_lower = owner.facts.queue == preemptor.queue and owner.facts.lowest_priority < preemptor.priority
        return is_lower and (owner.facts.may_be_preempted or session.is_low(owner))

    def may_go(owner: Job, task: Task) -> bool:
        return session.is_preemptable(owner, task)

    make_room(session, arguments, GangKind("gangpreempt", is_reclaim=False, may_lose=may_lose, may_go=may_go))
