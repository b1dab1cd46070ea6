"""The backoff between restarts of a Job, and the reset of the number of restarts."""

from __future__ import annotations

import math
from typing import Final

import msgspec

from pyroclast.api.enums import JobPhase
from pyroclast.api.records import Job, JobRetry, JobStatus
from pyroclast.lifecycle.times import duration_seconds, format_time, parse_time

_FREE: Final = 3
"""Restarts without a backoff when `spec.retry` sets no backoff: the default `maxRetry` of a Job."""

_FIRST_PAUSE: Final = 1.0
"""The backoff in seconds before the first delayed restart; each further restart doubles the backoff."""

_LONGEST_PAUSE: Final = 300.0
"""The longest backoff in seconds."""


def counted(job: Job, now: float, *, by_user: bool) -> JobStatus:
    """Return the status of `job` with one more restart at `now`, in seconds since the epoch.

    A restart begins after the backoff since the previous restart. A restart that a user requests begins at once.
    """
    last, retry = job.status, job.spec.retry or JobRetry()
    before = parse_time(last.restart_time) if last.restart_time else None
    window = _seconds(retry.reset_after, default=math.inf)
    starts_anew = before is not None and now - before >= window
    count = 1 if starts_anew else last.retry_count + 1
    begins = now
    if before is not None and not by_user and count < job.spec.max_retry:  # after the last restart the Job fails at once
        begins = max(now, math.ceil(before + _pause(retry, count)))
    return msgspec.structs.replace(last, retry_count=count, restart_time=format_time(begins))


def announced(message: str, following: JobStatus, now: float) -> str:
    """Return `message` with the time at which the restart in `following` begins, if this time is after `now`."""
    is_later = following.restart_time is not None and parse_time(following.restart_time) > now
    return f"{message}; the restart begins at {following.restart_time}" if is_later else message


def waits_until(job: Job, now: float) -> float | None:
    """Return when the pods of a restart may be created, in seconds since the epoch; None when no backoff is left."""
    status = job.status
    if status.state.phase is not JobPhase.RESTARTING or not status.restart_time:
        return None
    begins = parse_time(status.restart_time)
    return begins if begins > now else None


def _pause(retry: JobRetry, count: int) -> float:
    """Return the backoff in seconds between the previous restart and restart number `count`."""
    first, doublings = (_FIRST_PAUSE, count - _FREE - 1) if retry.backoff is None else (_seconds(retry.backoff), count - 2)
    if doublings < 0:
        return 0.0
    return min(first * 2.0 ** min(doublings, 60), _seconds(retry.max_backoff, default=max(first, _LONGEST_PAUSE)))


def _seconds(duration: str | None, default: float = 0.0) -> float:
    """Return `duration` in seconds; `default` for None and for an invalid duration, which admission rejects."""
    try:
        return max(0.0, duration_seconds(duration)) if duration is not None else default
    except ValueError:
        return default
