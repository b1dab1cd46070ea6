"""Decides about a CronJob: which of its Jobs run or have ended, which are deleted, and whether the next one is created."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from pyroclast.api.enums import ConcurrencyPolicy, JobPhase, JobReason
from pyroclast.api.records import CronJob, Job, ObjectReference
from pyroclast.lifecycle.cron.clock import Clock, Missed, ScheduleError, due, earliest_time, wait
from pyroclast.lifecycle.cron.jobs import CronState, is_owned, job_name, scheduled_time
from pyroclast.lifecycle.effects import Notice, normal, warning


@dataclass(frozen=True, slots=True)
class Review:
    """The result of a review: the new status of a CronJob, and the Jobs that are deleted.

    `prune` are the finished Jobs beyond the history limits. They may be deleted only after `state` is written, because they are
    the only record of their times until then.
    """

    state: CronState
    notices: tuple[Notice, ...]
    prune: tuple[Job, ...]


def review(cron_job: CronJob, jobs: Mapping[str, Job]) -> Review:
    """Review `jobs` by name: the Jobs that the CronJob owns and the Jobs that its status names.

    A Job that the controller created for a scheduled time is added to the status even if its creator did not write it there. The
    creator may have been killed between the two writes.
    """
    owned = [job for job in jobs.values() if is_owned(cron_job, job)]
    state, notices = CronState.of(cron_job), list[Notice]()
    for job in owned:
        state = _take(cron_job, job, state, notices)
    uids = {job.metadata.uid for job in owned}
    for active in state.active:
        if active.uid in uids:
            continue
        there = jobs.get(active.name)
        if there is None:
            text = f'Active job "{active.name}" no longer exists (UID: {active.uid})'
        elif there.metadata.uid != active.uid:
            text = (
                f'Active job reference "{active.name}" points to a different UID '
                f"(expected: {active.uid}, actual: {there.metadata.uid})"
            )
        else:
            continue  # the Job still runs, but the CronJob no longer owns it
        notices.append(warning("StaleReference", text))
        state = state.without(active.uid)
    return Review(state, tuple(notices), tuple(_beyond_history(cron_job, owned)))


def _take(cron_job: CronJob, job: Job, state: CronState, notices: list[Notice]) -> CronState:
    meta, ended = job.metadata, job.status.state
    time = scheduled_time(cron_job, job)
    if time is not None:
        state = state.acted_on(time)
    if ended.phase is JobPhase.ABORTED:
        return state.without(meta.uid)  # no pod of it runs; when it is resumed, it is added again
    if not ended.phase.is_finished:
        if state.has(meta.uid) or meta.is_terminating:
            return state
        if time is not None:
            return state.with_job(job)
        text = f"Detected orphaned job forgotten or not managed by controller: {meta.name} (UID: {meta.uid})"
        notices.append(warning("OrphanedJob", text))
        return state
    if state.has(meta.uid):
        notices.append(normal("SawCompletedJob", f"Saw completed job: {meta.name} in active, remove"))
        state = state.without(meta.uid)
    if ended.phase is JobPhase.COMPLETED and ended.last_transition_time:
        latest = max(state.last_successful or "", ended.last_transition_time)
        state = replace(state, last_successful=latest)
    return state


def _beyond_history(cron_job: CronJob, owned: Iterable[Job]) -> Iterator[Job]:
    """Yield the oldest finished Jobs beyond each history limit. Jobs that a user terminated by a Command are always kept."""
    completed, failed = list[Job](), list[Job]()
    there = [job for job in owned if not job.metadata.is_terminating]
    # the oldest first, Jobs without a creation time last
    for job in sorted(there, key=lambda job: (job.metadata.creation_timestamp or "~", job.metadata.name)):
        state = job.status.state
        was_given_up = state.phase is JobPhase.TERMINATED and state.reason not in ("", JobReason.COMMAND_ISSUED)
        if state.phase is JobPhase.COMPLETED:
            completed.append(job)
        elif state.phase is JobPhase.FAILED or was_given_up:
            failed.append(job)
    yield from completed[: max(0, len(completed) - cron_job.spec.successful_jobs_history_limit)]
    yield from failed[: max(0, len(failed) - cron_job.spec.failed_jobs_history_limit)]


_TOO_MANY = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"


@dataclass(frozen=True, slots=True)
class CronPlan:
    """The actions for a CronJob: create the Job of `time`, if any, after the active Jobs of `replace` were deleted.

    `again`: the seconds until the next reconcile; None when none is needed.
    """

    time: float | None = None
    replace: tuple[ObjectReference, ...] = ()
    again: float | None = None
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class CronFacts:
    """The facts about a CronJob at one moment, with the Jobs that it owns or that its status names.

    `acted`: the scheduled time that was acted on last, if the status may not contain it yet. `clock`: the schedule; None while
    the CronJob creates no Jobs. `notices`: the Events about the schedule.
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
