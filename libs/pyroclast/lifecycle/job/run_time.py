"""The longest run time of a Job, which its queue sets for each person.

The time runs from when the Job last began to run. So it begins anew after a restart, as the time limit of a requeued Job of Slurm
does; `spec.maxRetry` limits the restarts.
"""

from __future__ import annotations

from pyroclast.api import keys
from pyroclast.api.enums import Action, JobPhase, JobReason
from pyroclast.api.person_limits import PersonLimitsError, class_of, person_of, read_person_limits
from pyroclast.lifecycle.job.facts import JobFacts, RequestedAction
from pyroclast.lifecycle.times import parse_time
from pyroclast.resources import durations


def ends_at(facts: JobFacts) -> float | None:
    """Return when the run time of a running Job is over, in seconds since the epoch; None without a limit, or for another Job."""
    began, seconds = _began(facts), _limit(facts)
    return None if began is None or seconds is None else began + seconds


def termination(facts: JobFacts) -> RequestedAction | None:
    """Return the action that ends a Job whose run time is over; None for another Job."""
    if (end := ends_at(facts)) is None or facts.now < end:
        return None
    queue, most = facts.job.spec.queue, durations.shown(int((_limit(facts) or 0.0) * 1e9))
    message = f"it has run for {most}, which is the longest run time of a Job of this person in queue {queue}"
    return RequestedAction(Action.TERMINATE_JOB, JobReason.RUN_TIME_LIMIT, message)


def _began(facts: JobFacts) -> float | None:
    """Return when the running Job began to run; None when it does not run."""
    status = facts.job.status
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
