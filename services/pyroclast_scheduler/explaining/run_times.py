"""The start and the estimated end of running jobs."""

from __future__ import annotations

from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.statuses import TaskStatus
from pyroclast_scheduler.model.tasks import readable_seconds

_PLACED = frozenset({TaskStatus.RUNNING, TaskStatus.BOUND, TaskStatus.BINDING, TaskStatus.RELEASING})
_GRACE = 1.0


def began(facts: JobFacts) -> float | None:
    """Return when the first pod of a running job started, in seconds since the epoch; None if none has started."""
    starts = (task.pod.status.start_time for task in facts.tasks if task.status in _PLACED)
    known = [seconds for text in starts if text and (seconds := readable_seconds(text)) is not None]
    return min(known, default=None)


def declared_end(facts: JobFacts, *, now: float) -> float | None:
    """Return when a running job ends by its declared run time, which doubles each time it is exceeded; None if unknown."""
    start, seconds = began(facts), facts.declared_seconds
    if start is None or seconds is None:
        return None
    while start + seconds + _GRACE < now:
        seconds *= 2
    return start + seconds
