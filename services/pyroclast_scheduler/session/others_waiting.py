"""Decides whether another job waits for room, for gangs that may only start if no other job waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pyroclast.api.enums import PodGroupPhase
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.session.ports import WaitingPlaces

_NOT_PLACED: Final = frozenset({PodGroupPhase.PENDING, PodGroupPhase.INQUEUE})
_NOT_FOR_ROOM: Final = frozenset({
    PendingReason.LEFT_OUT,
    PendingReason.NOT_LET_IN,
    PendingReason.QUEUE_CLOSED,
    PendingReason.ABOVE_QUEUE_LIMIT,
    PendingReason.ABOVE_CLUSTER,
    PendingReason.BUDGET_SPENT,
    PendingReason.PODS_MISSING,
    PendingReason.GATED,
    PendingReason.NO_NODE_ALLOWED,
    PendingReason.NO_NODE_BIG_ENOUGH,
    PendingReason.TOO_FEW_NODES,
})  # fmt: skip
"""Codes of jobs that would not start even if there were more room."""


def others_wait(
    jobs: Mapping[str, Job], all_jobs: Mapping[str, JobFacts], waiting: WaitingPlaces | None, is_low: Callable[[str], bool]
) -> bool:
    """Whether a job waits for room in a queue that is not `is_low`.

    `jobs`: the jobs that the session examines. `all_jobs`: all jobs. `waiting`: the results of earlier sessions; None if there
    are none.
    """
    if any(_waits(job.facts) and not is_low(job.facts.queue) and _is_for_room(waiting, job) for job in jobs.values()):
        return True
    if waiting is None:
        at_rest = (facts for key, facts in all_jobs.items() if key not in jobs)
        return any(_waits(facts) and not is_low(facts.queue) for facts in at_rest)
    here: dict[tuple[str, PendingReason], int] = {}
    for key in jobs:
        slot = waiting.slot(key)
        if slot is not None:
            here[slot] = here.get(slot, 0) + 1
    return any(
        count > here.get((queue, code), 0) and code not in _NOT_FOR_ROOM and not is_low(queue)
        for (queue, code), count in waiting.counts.items()
    )


def _waits(facts: JobFacts) -> bool:
    return facts.phase in _NOT_PLACED and facts.tally.ready < facts.min_available


def _is_for_room(waiting: WaitingPlaces | None, job: Job) -> bool:
    """Whether the job waits for room, by the result of this session or else of the previous one."""
    if job.is_ready or job.facts.group.spec.hold is not None:
        return False
    if job.cause is not None:
        return job.cause.reason not in _NOT_FOR_ROOM
    slot = None if waiting is None else waiting.slot(job.facts.key)
    return slot is None or slot[1] not in _NOT_FOR_ROOM
