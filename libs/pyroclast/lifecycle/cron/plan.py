"""Whether a CronJob makes a Job now, what has to go before, and when to look again."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pyroclast.api.enums import ConcurrencyPolicy
from pyroclast.api.records import CronJob, ObjectReference
from pyroclast.lifecycle.cron.clock import Clock
from pyroclast.lifecycle.cron.jobs import job_name
from pyroclast.lifecycle.cron.missed import Missed, ScheduleError, due, since, wait
from pyroclast.lifecycle.cron.state import CronState
from pyroclast.lifecycle.notices import Notice, warning

__all__ = ["CronPlan", "plan"]

_TOO_MANY = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"


@dataclass(frozen=True, slots=True)
class CronPlan:
    """`time`: make the Job for that time, None: make none. `replace`: Jobs that go first. `again`: seconds, None for never."""

    time: float | None = None
    replace: tuple[ObjectReference, ...] = ()
    again: float | None = None
    notices: tuple[Notice, ...] = ()


def plan(cron_job: CronJob, state: CronState, clock: Clock, *, now: float, names: Collection[str] = ()) -> CronPlan:
    """What to do now. `names`: the Jobs of the CronJob that there are."""
    earliest = since(cron_job, state.last_schedule)
    again = wait(clock, earliest=earliest, now=now)
    try:
        found = due(clock, earliest=earliest, now=now, deadline=cron_job.spec.starting_deadline_seconds)
    except ScheduleError as error:
        return CronPlan(again=again, notices=(warning("InvalidSchedule", f"Error getting schedule time: {error}"),))
    notices = [warning("TooManyMissedTimes", _TOO_MANY)] if found.missed is Missed.MANY else []
    if found.time is None or job_name(cron_job, found.time) in names:
        return CronPlan(again=again, notices=tuple(notices))
    match cron_job.spec.concurrency_policy:
        case ConcurrencyPolicy.FORBID if state.active:
            text = "Skipping job creation because another job is already running"
            return CronPlan(again=again, notices=(*notices, warning("ForbidConcurrent", text)))
        case ConcurrencyPolicy.REPLACE if state.active:
            notices.append(warning("ReplaceConcurrent", "Replacing active job for CronJob"))
            return CronPlan(found.time, state.active, again, tuple(notices))
    return CronPlan(found.time, (), again, tuple(notices))
