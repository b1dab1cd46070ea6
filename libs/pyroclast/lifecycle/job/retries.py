"""How restarts of a Job follow each other: the pauses between them, and when their count starts anew."""

from __future__ import annotations

import math
from typing import Final

import msgspec

from pyroclast.api.enums import JobPhase
from pyroclast.api.records import Job, JobRetry, JobStatus
from pyroclast.lifecycle.times import duration_seconds, format_time, parse_time

__all__ = ["announced", "counted", "waits_until"]

_FREE: Final = 3
"""Restarts that follow at once unless the Job says otherwise: as many as a Job has by default."""

_FIRST_PAUSE: Final = 1.0
"""Least seconds between those and the next one; doubled for each further one …"""

_LONGEST_PAUSE: Final = 300.0
"""… up to this."""


def counted(job: Job, now: float, *, by_user: bool) -> JobStatus:
    """The status of `job` with one more restart at `now`, in seconds since the epoch.

    A restart begins at the earliest a pause after the one before; one that a user asks for begins at once.
    """
    last, retry = job.status, job.spec.retry or JobRetry()
    before = parse_time(last.restart_time) if last.restart_time else None
    window = _seconds(retry.reset_after, default=math.inf)
    starts_anew = before is not None and now - before >= window
    count = 1 if starts_anew else last.retry_count + 1
    begins = now
    if before is not None and not by_user and count < job.spec.max_retry:  # with the last one the Job fails at once
        begins = max(now, math.ceil(before + _pause(retry, count)))
    return msgspec.structs.replace(last, retry_count=count, restart_time=format_time(begins))


def announced(message: str, following: JobStatus, now: float) -> str:
    """`message` of the restart that `following` counts, with the time at which it begins if that is not now."""
    is_later = following.restart_time is not None and parse_time(following.restart_time) > now
    return f"{message}; the restart begins at {following.restart_time}" if is_later else message


def waits_until(job: Job, now: float) -> float | None:
    """When the pods of a restart may be made, in seconds since the epoch; None: nothing has to be waited for."""
    status = job.status
    if status.state.phase is not JobPhase.RESTARTING or not status.restart_time:
        return None
    begins = parse_time(status.restart_time)
    return begins if begins > now else None


def _pause(retry: JobRetry, count: int) -> float:
    """Least seconds between the restart before and number `count`."""
    first, doublings = (_FIRST_PAUSE, count - _FREE - 1) if retry.backoff is None else (_seconds(retry.backoff), count - 2)
    if doublings < 0:
        return 0.0
    return min(first * 2.0 ** min(doublings, 60), _seconds(retry.max_backoff, default=max(first, _LONGEST_PAUSE)))


def _seconds(duration: str | None, default: float = 0.0) -> float:
    """What `duration` says; one that cannot be read (admission refuses it) says nothing."""
    try:
        return max(0.0, duration_seconds(duration)) if duration is not None else default
    except ValueError:
        return default
