"""The times of a Job: its deadline, its longest run time, that of each person in its queue, and the life of its program.

A run time counts from when the Job last began to run. So it begins anew after a restart or a suspension, as the time limit of a
requeued Job of Slurm does; `spec.maxRetry` limits the restarts. A deadline is a moment, whether the Job waits, runs or is
suspended. All times are derived from the status and the spec, so a restart of the controller changes none.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from pyroclast.api import keys
from pyroclast.api.enums import Action, JobPhase, JobReason, TimeoutPolicy
from pyroclast.api.person_limits import PersonLimitsError, class_of, person_of, read_person_limits
from pyroclast.api.records import Job, JobStatus
from pyroclast.lifecycle.gang import ends
from pyroclast.lifecycle.job.facts import JobFacts, RequestedAction
from pyroclast.lifecycle.job.phase_transitions import Change
from pyroclast.lifecycle.times import format_time, lenient_seconds, parse_time
from pyroclast.resources import durations

_ALIVE = (JobPhase.PENDING, JobPhase.RUNNING, JobPhase.RESTARTING)


def due(facts: JobFacts) -> list[float]:
    """Return the future times at which a limit of the Job is over, in seconds since the epoch."""
    return [at for at, _ in _limits(facts) if at > facts.now]


def action(facts: JobFacts) -> RequestedAction | None:
    """Return the action for a Job whose run time is over: a restart, or its termination; None when no such action is due."""
    return next((end for at, end in _limits(facts) if at <= facts.now and isinstance(end, RequestedAction)), None)


def failure(facts: JobFacts) -> Change | None:
    """Return the failure of a Job whose run time or deadline is over; None when the Job may go on."""
    return next((end for at, end in _limits(facts) if at <= facts.now and isinstance(end, Change)), None)


def with_start(facts: JobFacts, following: JobStatus) -> JobStatus:
    """Return `following` with the time at which the Job began to run; without it while the Job is stopped."""
    phase, last = following.state.phase, facts.job.status
    if phase is JobPhase.RUNNING:
        began = _began(facts)
        start = format_time(facts.now if began is None else began)
    elif phase in (JobPhase.RESTARTING, JobPhase.ABORTING, JobPhase.ABORTED):
        start = None
    else:
        start = last.start_time
    return msgspec.structs.replace(following, start_time=start)


def _driver_alive_until(job: Job) -> float | None:
    try:
        return parse_time(job.metadata.annotations.get(keys.DRIVER_ALIVE_UNTIL, ""))
    except ValueError:
        return None


def _limits(facts: JobFacts) -> Iterator[tuple[float, RequestedAction | Change]]:
    """Yield the end of each time that the Job may take, and what happens at that end."""
    spec, began = facts.job.spec, _began(facts)
    if (deadline := ends.deadline_of(facts.job)) is not None and facts.job.status.state.phase in _ALIVE:
        yield deadline, Change(JobPhase.FAILED, JobReason.DEADLINE, f"its deadline {spec.deadline} has passed")
    if (alive := _driver_alive_until(facts.job)) is not None and facts.job.status.state.phase in _ALIVE:
        message = (
            f"the program that submitted it has not renewed it since, and it was to end with that program at {format_time(alive)}"
        )
        yield alive, RequestedAction(Action.TERMINATE_JOB, JobReason.DRIVER_GONE, message)
    if began is None:
        return
    if spec.max_run_time and (most := lenient_seconds(spec.max_run_time)) > 0:
        message = f"it has run for {spec.max_run_time}, which is its maxRunTime"
        if spec.on_timeout is TimeoutPolicy.REQUEUE:
            yield began + most, RequestedAction(Action.RESTART_JOB, JobReason.RUN_TIME_LIMIT, message)
        else:
            yield began + most, Change(JobPhase.FAILED, JobReason.RUN_TIME_LIMIT, message)
    if (seconds := _limit(facts)) is not None:
        most_text = durations.shown(int(seconds * 1e9))
        message = f"it has run for {most_text}, which is the longest run time of a Job of this person in queue {spec.queue}"
        yield began + seconds, RequestedAction(Action.TERMINATE_JOB, JobReason.RUN_TIME_LIMIT, message)


def _began(facts: JobFacts) -> float | None:
    """Return when the Job began to run; None when it does not run. A Job that lost pods and is Pending again still runs.

    The status of a Job that an older release started has no time of the start, but the time of its last write while it ran.
    """
    status = facts.job.status
    if status.start_time and status.state.phase in (JobPhase.PENDING, JobPhase.RUNNING):
        return parse_time(status.start_time)
    if status.state.phase is not JobPhase.RUNNING:
        return None
    times = (each.last_transition_time for each in status.conditions if each.status == JobPhase.RUNNING)
    return max((parse_time(time) for time in times if time), default=None)


def _limit(facts: JobFacts) -> float | None:
    text = None if facts.queue is None else facts.queue.metadata.annotations.get(keys.QUEUE_PERSON_LIMITS)
    meta = facts.job.metadata
    try:
        limits = None if text is None else read_person_limits(text)
    except PersonLimitsError:
        return None
    return None if limits is None else limits.run_seconds(person_of(meta.annotations, meta.namespace), class_of(meta.labels))
