"""Restarts of a Job, and the pauses between them."""

from __future__ import annotations

import math
from typing import Final

import msgspec

from pyroclast.api.enums import JobPhase
from pyroclast.api.records import Job, JobRetry, JobStatus
from pyroclast.lifecycle.times import format_time, lenient_seconds, parse_time
from pyroclast.resources.backoff import Backoff

_FREE: Final = 3
"""Restarts without a backoff when `spec.retry` sets no backoff: the default `maxRetry` of a Job."""

_FIRST_PAUSE: Final = 1.0
"""The backoff in seconds before the first delayed restart; each further restart doubles the backoff."""

_FIRST_AFTER_REJECTION: Final = 10.0
"""The backoff in seconds before the first restart after a kubelet rejected a pod, as for a container that crashes.

A node rejects the next pod as well until the scheduler knows its real state, so all retries would be used up at once.
"""

_LONGEST_PAUSE: Final = 300.0
"""The longest backoff in seconds."""


def with_restart(job: Job, now: float, *, by_user: bool, rejected: bool) -> JobStatus:
    """Return the status of `job` with one more restart at `now`, in seconds since the epoch.

    A restart begins after the backoff since the previous restart. A restart that a user requests begins at once. After a pod was
    `rejected`, the backoff begins now and concerns the first restart too.
    """
    last, retry = job.status, job.spec.retry or JobRetry()
    before = parse_time(last.restart_time) if last.restart_time else None
    window = lenient_seconds(retry.reset_after, default=math.inf)
    starts_anew = before is not None and now - before >= window
    count = 1 if starts_anew else last.retry_count + 1
    at = now
    if before is not None and not by_user and count < job.spec.max_retry:  # after the last restart the Job fails at once
        at = max(now, math.ceil(before + _pause(retry, count)))
    if rejected and not by_user and count < job.spec.max_retry:
        at = max(at, math.ceil(now + _pause_after_rejection(retry, count)))
    return msgspec.structs.replace(last, retry_count=count, restart_time=format_time(at))


def pause_of_pod(job: Job, count: int, *, rejected: bool) -> float:
    """Return the seconds between a failure of an independent pod and its replacement number `count`; see `with_restart`."""
    retry = job.spec.retry or JobRetry()
    return _pause_after_rejection(retry, count) if rejected else _pause(retry, count)


def _pause_after_rejection(retry: JobRetry, count: int) -> float:
    """Return the backoff in seconds before restart number `count` when a pod was rejected."""
    first = lenient_seconds(retry.backoff, default=_FIRST_AFTER_REJECTION)
    return Backoff(first, lenient_seconds(retry.max_backoff, default=max(first, _LONGEST_PAUSE))).after(count - 1)


def with_begin(message: str, following: JobStatus, now: float) -> str:
    """Return `message` with the time at which the restart in `following` begins, if this time is after `now`."""
    is_later = following.restart_time is not None and parse_time(following.restart_time) > now
    return f"{message}; the restart begins at {following.restart_time}" if is_later else message


def begins(job: Job, now: float) -> float | None:
    """Return when the pods of a restart may be created, in seconds since the epoch; None when no backoff is left."""
    status = job.status
    if status.state.phase is not JobPhase.RESTARTING or not status.restart_time:
        return None
    at = parse_time(status.restart_time)
    return at if at > now else None


def _pause(retry: JobRetry, count: int) -> float:
    """Return the backoff in seconds between the previous restart and restart number `count`."""
    first, doublings = (_FIRST_PAUSE, count - _FREE - 1) if retry.backoff is None else (lenient_seconds(retry.backoff), count - 2)
    if doublings < 0:
        return 0.0
    return Backoff(first, lenient_seconds(retry.max_backoff, default=max(first, _LONGEST_PAUSE))).after(doublings)
