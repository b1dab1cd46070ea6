"""The history of a Job in the status of its flow: the phases of the Job, and how the Job ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from pyroclast.api.enums import JobPhase
from pyroclast.api.records import FlowJobPods, FlowJobStatus, Job, RunningHistory
from pyroclast.lifecycle.flow.names import retries_of
from pyroclast.lifecycle.times import duration_seconds, format_time, parse_time
from pyroclast.resources.durations import DurationError

MOST_HISTORIES: Final = 100
"""How many phases of a Job the status keeps, the latest ones. Without a limit, a Job that is suspended every hour would fill the
status.
"""


def followed(job: Job, before: FlowJobStatus | None, now: float, exit_codes: Mapping[str, int | None]) -> FlowJobStatus:
    """Return the row of `job` in the status. `before`: the previous row, None when there is none."""
    status = job.status
    phase = status.state.phase
    # an empty state belongs to a Job that had just been created: its histories are those of an earlier try
    is_same_try = before is not None and bool(before.state) and before.retries >= retries_of(job)
    if before is not None and is_same_try and phase.is_finished and before.state == phase and before.end_timestamp:
        found = exit_codes.get(job.metadata.name)
        # a finished Job does not change otherwise
        return before if found is None else msgspec.structs.replace(before, exit_code=found)
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
    """Return the ratio of failed pods to all pods that ever started, with two decimals; empty while no pod has started."""
    return f"{pods.failed / pods.started:.2f}" if pods is not None and pods.started else ""


def _pods(job: Job, before: FlowJobStatus | None) -> FlowJobPods | None:
    """Count the pods that started and failed over all tries and restarts, as far as the controller observed them.

    The status of a Job counts the pods that exist now. The status of the flow also keeps the pods that a restart or retry
    removed. When failed pods disappear, they were removed, and the pods in their place have started since.
    """
    status = job.status
    present, failed = status.running + status.succeeded + status.failed + status.unknown, status.failed
    was = before.pods if before is not None and before.pods is not None else FlowJobPods()
    if before is not None and (before.retries < retries_of(job) or before.start_timestamp != job.metadata.creation_timestamp):
        was = msgspec.structs.replace(was, present=0, present_failed=0)  # these pods belonged to another Job, which is gone
    removed = max(0, was.present_failed - failed)
    pods = FlowJobPods(
        started=was.started + max(0, present - (was.present - removed)),
        failed=was.failed + max(0, failed - was.present_failed),
        present=present,
        present_failed=failed,
    )
    return pods if pods.started else None


def _end(job: Job) -> str | None:
    """Return when the Job ended: its creation plus its reported duration, else the transition to a finished phase."""
    created, duration = job.metadata.creation_timestamp, job.status.running_duration
    if created and duration:
        try:
            return format_time(parse_time(created) + duration_seconds(duration))
        except (ValueError, DurationError):  # another writer set the value
            return None
    return job.status.state.last_transition_time if job.status.state.phase.is_finished else None


def _exit_code(job: Job, before: FlowJobStatus | None, exit_codes: Mapping[str, int | None]) -> int | None:
    phase = job.status.state.phase
    if not phase.is_finished or phase is JobPhase.COMPLETED:
        return None
    found = exit_codes.get(job.metadata.name)
    return found if found is not None else before.exit_code if before is not None and before.state == phase else None


def _histories(job: Job, before: tuple[RunningHistory, ...], now: float, *, is_same_try: bool) -> tuple[RunningHistory, ...]:
    """Return the phases of the Job. The Job's conditions add the phases that the controller did not observe."""
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
    """Return the phases after `last` up to the current one, each with the time of its beginning (RFC 3339).

    The conditions of a Job list each of its phases once, in the order of their last beginning. If `last` is not a condition, the
    Job was created anew.
    """
    phase = job.status.state.phase.value
    conditions = [(each.status, each.last_transition_time or format_time(now)) for each in job.status.conditions]
    names = [status for status, _ in conditions]
    if phase not in names:
        return [(phase, job.status.state.last_transition_time or format_time(now))]
    first = names.index(last) + 1 if last in names else 0
    passed = conditions[first : names.index(phase) + 1]
    return passed or [(phase, conditions[names.index(phase)][1])]
