"""When a finished Job is to be deleted."""

from __future__ import annotations

from pyroclast.api.records import Job
from pyroclast.lifecycle.times import parse_time

__all__ = ["expires_at"]


def expires_at(job: Job) -> float | None:
    """Seconds since the epoch at which `job` has outlived its `ttlSecondsAfterFinished`; None: never, or not finished, or going
    already.

    An aborted Job is not finished: it may be resumed.
    """
    ttl, state = job.spec.ttl_seconds_after_finished, job.status.state
    if ttl is None or job.metadata.is_terminating or not state.phase.is_finished or not state.last_transition_time:
        return None
    return parse_time(state.last_transition_time) + ttl
