"""The time at which a finished Job must be deleted."""

from __future__ import annotations

from pyroclast.api.records import Job
from pyroclast.lifecycle.times import parse_time


def expires_at(job: Job) -> float | None:
    """Return when `ttlSecondsAfterFinished` of `job` is over, in seconds since the epoch.

    None when the Job has no such field, is not finished, or is being deleted. An aborted Job is not finished, because it may be
    resumed.
    """
    ttl, state = job.spec.ttl_seconds_after_finished, job.status.state
    if ttl is None or job.metadata.is_terminating or not state.phase.is_finished or not state.last_transition_time:
        return None
    return parse_time(state.last_transition_time) + ttl
