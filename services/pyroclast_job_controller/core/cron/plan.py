"""Decides about a CronJob: whether a Job is created, which Jobs are deleted before, and when the next reconcile is due."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from pyroclast.api.enums import ConcurrencyPolicy
from pyroclast.api.records import CronJob, Job, ObjectReference
from pyroclast.lifecycle.notices import Notice, warning
from pyroclast_job_controller.core.cron.clock import Clock
from pyroclast_job_controller.core.cron.jobs import is_owned, job_name
from pyroclast_job_controller.core.cron.missed import Missed, ScheduleError, due, earliest_time, wait
from pyroclast_job_controller.core.cron.review import Review, review
from pyroclast_job_controller.core.cron.state import CronState

_TOO_MANY = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"


@dataclass(frozen=True, slots=True)
class CronPlan:
    """The actions for a CronJob and the time of its next reconcile.

    Attributes:
        time: the scheduled time of the Job to create. None when no Job is created.
        replace: the active Jobs that are deleted first.
        again: the seconds until the next reconcile. None when none is needed.
        notices: the Events to record.
    """

    time: float | None = None
    replace: tuple[ObjectReference, ...] = ()
    again: float | None = None
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class CronFacts:
    """The facts about a CronJob at one moment.

    Attributes:
        jobs: the Jobs that the CronJob owns or that its status names, by name.
        acted: the scheduled time that was acted on last, if the status may not contain it yet. Otherwise None.
        clock: the schedule. None while the CronJob creates no Jobs.
        notices: the Events about the schedule.
    """

    cron_job: CronJob
    jobs: Mapping[str, Job]
    acted: float | None
    clock: Clock | None
    notices: tuple[Notice, ...]
    now: float


CronDecision: TypeAlias = tuple[Review, CronPlan]
"""The review of the Jobs and the plan, which are carried out in this order."""


def decide(facts: CronFacts) -> CronDecision:
    """Return the decision about a CronJob that follows from the facts."""
    cron_job = facts.cron_job
    if cron_job.metadata.is_terminating:
        # the garbage collector deletes the Jobs by their owner references
        return Review(CronState.of(cron_job), (), ()), CronPlan()
    found = review(cron_job, facts.jobs)
    if facts.acted is not None:
        found = replace(found, state=found.state.acted_on(facts.acted))
    names = [name for name, job in facts.jobs.items() if is_owned(cron_job, job)]
    planned = plan(cron_job, found.state, facts.clock, now=facts.now, names=names) if facts.clock is not None else CronPlan()
    return found, replace(planned, notices=(*facts.notices, *planned.notices))


def plan(cron_job: CronJob, state: CronState, clock: Clock, *, now: float, names: Collection[str] = ()) -> CronPlan:
    """Return the plan for a CronJob. `names` are the names of its existing Jobs."""
    earliest = earliest_time(cron_job, state.last_schedule)
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
