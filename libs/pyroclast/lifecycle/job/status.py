"""The status of a Job: how the next one follows from the last, and how it is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pyroclast.api.enums import JobPhase
from pyroclast.api.records import Job, JobCondition, JobState, JobStatus, TaskState
from pyroclast.lifecycle.job.counts import Counts
from pyroclast.lifecycle.times import format_duration, format_time, parse_time

__all__ = ["PLUGIN_MARK", "counted", "entering", "is_quiet", "is_same", "killed", "synchronised", "was_resumed", "written"]

PLUGIN_MARK: Final = "plugin-"
"""Beginning of the keys in `status.controlledResources` that plugins leave."""


def counted(status: JobStatus, counts: Counts) -> JobStatus:
    """`status` with other counters."""
    return msgspec.structs.replace(
        status,
        pending=counts.pending,
        running=counts.running,
        succeeded=counts.succeeded,
        failed=counts.failed,
        unknown=counts.unknown,
        terminating=counts.terminating,
        task_status_count={task: TaskState(phase=dict(phases)) for task, phases in counts.by_task.items()},
    )


def entering(status: JobStatus, phase: JobPhase, reason: str, message: str) -> JobStatus:
    """`status` in another phase."""
    state = msgspec.structs.replace(status.state, phase=phase, reason=reason, message=message)
    return msgspec.structs.replace(status, state=state)


def synchronised(status: JobStatus, now: float) -> JobStatus:
    """`status` stamped as a synchronisation writes it: every such write moves the time of the phase, as clients know it."""
    return _touched(msgspec.structs.replace(status, running_duration=None), now)


def killed(job: Job, status: JobStatus, now: float) -> JobStatus:
    """`status` stamped as a kill writes it: the time of the phase moves only when the phase changed; the Job's age at that time
    is noted. A phase that somebody else wrote changes here too: their write left time and conditions as they were.
    """
    if status.state.phase is job.status.state.phase and status.running_duration is not None:
        return status
    entered = status.state.phase is not job.status.state.phase or _is_foreign(status)
    at = now if entered or not status.state.last_transition_time else parse_time(status.state.last_transition_time)
    created = job.metadata.creation_timestamp
    age = format_duration(at - parse_time(created)) if created else None
    status = msgspec.structs.replace(status, running_duration=age)
    return _touched(status, now) if entered else status


def is_same(one: JobStatus, other: JobStatus) -> bool:
    """Whether the two say the same, the times and numbers of what is waited for aside."""
    return _timeless(one) == _timeless(other)


def is_quiet(old: JobStatus, new: JobStatus) -> bool:
    """Whether `new` differs from `old` in nothing but pods that were made and wait: nobody acts on that."""
    if new.pending <= old.pending or new.terminating != old.terminating:
        return False
    same = msgspec.structs.replace(
        new, pending=old.pending, task_status_count=old.task_status_count, tracked_pods=old.tracked_pods
    )
    return is_same(old, same)


def was_resumed(status: JobStatus) -> bool:
    """Whether a Job that restarts was resumed: its finished pods are kept then.

    The conditions tell, being in order of last touch.
    """
    before = [condition.status for condition in status.conditions if condition.status != JobPhase.RESTARTING]
    return bool(before) and before[-1] in (JobPhase.ABORTING, JobPhase.ABORTED)


def written(status: JobStatus) -> dict[str, Any]:
    """`status` as it goes over the wire: without what is zero or empty."""
    state = {"phase": status.state.phase.value, "reason": status.state.reason, "message": status.state.message}
    body: dict[str, Any] = {
        "state": _filled(state) | {"lastTransitionTime": status.state.last_transition_time},
        "minAvailable": status.min_available,
        "taskStatusCount": {task: {"phase": dict(state.phase)} for task, state in status.task_status_count.items()},
        "pending": status.pending,
        "running": status.running,
        "succeeded": status.succeeded,
        "failed": status.failed,
        "terminating": status.terminating,
        "unknown": status.unknown,
        "version": status.version,
        "retryCount": status.retry_count,
        "restartTime": status.restart_time,
        "runningDuration": status.running_duration,
        "controlledResources": dict(status.controlled_resources),
        "conditions": [
            {"status": condition.status, "lastTransitionTime": condition.last_transition_time} for condition in status.conditions
        ],
        "observedGeneration": status.observed_generation,
        "trackedPods": _filled(msgspec.to_builtins(status.tracked_pods)),
        "lastCommand": status.last_command,
        "delayedActions": [_filled(msgspec.to_builtins(action)) for action in status.delayed_actions],
        "unknownPodGroup": status.unknown_pod_group,
        "waiting": None if status.waiting is None else _filled(msgspec.to_builtins(status.waiting)),
    }
    return _filled(body)


def _is_foreign(status: JobStatus) -> bool:
    """Whether the phase is not the one that was noted last."""
    return bool(status.conditions) and status.conditions[-1].status != status.state.phase


def _filled(body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if value}


def _touched(status: JobStatus, now: float) -> JobStatus:
    at = format_time(now)
    phase = status.state.phase.value
    others = tuple(condition for condition in status.conditions if condition.status != phase)
    state: JobState = msgspec.structs.replace(status.state, last_transition_time=at)
    conditions = (*others, JobCondition(status=phase, last_transition_time=at))
    pods = msgspec.structs.replace(status.tracked_pods, at=at) if status.tracked_pods.indexes else status.tracked_pods
    return msgspec.structs.replace(status, state=state, conditions=conditions, tracked_pods=pods)


def _timeless(status: JobStatus) -> JobStatus:
    state = msgspec.structs.replace(status.state, last_transition_time=None)
    return msgspec.structs.replace(status, state=state, conditions=(), running_duration=None, waiting=None)
