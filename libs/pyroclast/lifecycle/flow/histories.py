"""The history of a Job as its flow tells it: in which phases it was, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from pyroclast.api.enums import JobPhase
from pyroclast.api.records import FlowJobPods, FlowJobStatus, Job, RunningHistory
from pyroclast.lifecycle.flow.names import retries_of
from pyroclast.lifecycle.times import duration_seconds, format_time, parse_time
from pyroclast.resources.durations import DurationError

__all__ = ["MOST_HISTORIES", "failure_ratio", "followed"]

MOST_HISTORIES: Final = 100
"""Phases of a Job that are kept, the latest: a Job that is suspended every hour would fill the status otherwise."""


def followed(job: Job, before: FlowJobStatus | None, now: float, exit_codes: Mapping[str, int | None]) -> FlowJobStatus:
    """What the status says of `job`, given what it said `before`."""
    status = job.status
    phase = status.state.phase
    # a state that is empty was told of a Job that had just been made: what stands in its history was before
    is_same_try = before is not None and bool(before.state) and before.retries >= retries_of(job)
    if before is not None and is_same_try and phase.is_finished and before.state == phase and before.end_timestamp:
        found = exit_codes.get(job.metadata.name)
        return before if found is None else msgspec.structs.replace(before, exit_code=found)  # nothing else happens to it
    pods = _pods(job, before)
    return FlowJobStatus(
        name=job.metadata.name,
        state=phase.value,
        start_timestamp=job.metadata.creation_timestamp,
        end_timestamp=_end(job),
        restart_count=status.retry_count,
        running_histories=_histories(job, before.running_histories if before is not None else (), now, is_same_try=is_same_try),
        pod_failure_ratio=failure_ratio(pods),
        pods=pods,
        retries=max(retries_of(job), before.retries if before is not None else 0),
        exit_code=_exit_code(job, before, exit_codes),
    )


def failure_ratio(pods: FlowJobPods | None) -> str:
    """Failed pods by pods that ever started, with two decimals; empty as long as none has."""
    return f"{pods.failed / pods.started:.2f}" if pods is not None and pods.started else ""


def _pods(job: Job, before: FlowJobStatus | None) -> FlowJobPods | None:
    """The pods that started and failed over all tries and restarts, as far as they were seen.

    A Job counts the pods that it has: what a restart or a retry removes is kept here. Failed pods that are gone were removed, and
    what stands in their place has started since.
    """
    status = job.status
    present, failed = status.running + status.succeeded + status.failed + status.unknown, status.failed
    was = before.pods if before is not None and before.pods is not None else FlowJobPods()
    if before is not None and (before.retries < retries_of(job) or before.start_timestamp != job.metadata.creation_timestamp):
        was = msgspec.structs.replace(was, present=0, present_failed=0)  # of another Job, which is gone
    removed = max(0, was.present_failed - failed)
    pods = FlowJobPods(
        started=was.started + max(0, present - (was.present - removed)),
        failed=was.failed + max(0, failed - was.present_failed),
        present=present,
        present_failed=failed,
    )
    return pods if pods.started else None


def _end(job: Job) -> str | None:
    """When the Job ended: its creation and the duration that it tells, or when it came into a phase that is an end."""
    created, duration = job.metadata.creation_timestamp, job.status.running_duration
    if created and duration:
        try:
            return format_time(parse_time(created) + duration_seconds(duration))
        except (ValueError, DurationError):  # written by somebody else
            return None
    return job.status.state.last_transition_time if job.status.state.phase.is_finished else None


def _exit_code(job: Job, before: FlowJobStatus | None, exit_codes: Mapping[str, int | None]) -> int | None:
    phase = job.status.state.phase
    if not phase.is_finished or phase is JobPhase.COMPLETED:
        return None
    found = exit_codes.get(job.metadata.name)
    return found if found is not None else before.exit_code if before is not None and before.state == phase else None


def _histories(job: Job, before: tuple[RunningHistory, ...], now: float, *, is_same_try: bool) -> tuple[RunningHistory, ...]:
    """The phases that the Job was in, with those that it passed through unseen, as far as its conditions tell."""
    phase = job.status.state.phase.value
    if not phase or (before and before[-1].state == phase and is_same_try):
        return before
    histories = list(before)
    for state, since in _passed(job, histories[-1].state if histories and is_same_try else "", now):
        if histories:
            start = max(since, histories[-1].start_timestamp or since)
            histories[-1] = msgspec.structs.replace(histories[-1], end_timestamp=start)
            since = start
        histories.append(RunningHistory(start_timestamp=since, state=state))
    return tuple(histories[-MOST_HISTORIES:])


def _passed(job: Job, last: str, now: float) -> list[tuple[str, str]]:
    """The phases after `last` up to the current one, and since when (RFC 3339).

    The conditions of a Job are the phases that it was in, each once, in the order in which it was in them last. If `last` is not
    among them, the Job was made anew.
    """
    phase = job.status.state.phase.value
    conditions = [(each.status, each.last_transition_time or format_time(now)) for each in job.status.conditions]
    names = [status for status, _ in conditions]
    if phase not in names:
        return [(phase, job.status.state.last_transition_time or format_time(now))]
    first = names.index(last) + 1 if last in names else 0
    passed = conditions[first : names.index(phase) + 1]
    return passed or [(phase, conditions[names.index(phase)][1])]
