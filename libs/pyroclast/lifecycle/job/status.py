"""The status of a Job: the counts of its pods, the next status from the last, and the form that is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from pyroclast.api.enums import JobPhase, PodPhase
from pyroclast.api.records import Job, JobCondition, JobState, JobStatus, Pod, TaskState
from pyroclast.lifecycle.gang.members import ObservedPods
from pyroclast.lifecycle.times import format_duration, format_time, parse_time


@dataclass(frozen=True, slots=True)
class Counts:
    """The number of pods of a Job in each phase. A pod that is being deleted counts only as terminating."""

    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    unknown: int = 0
    terminating: int = 0
    by_task: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """The number of pods by task and phase. Terminating pods are left out, and so are numbers that are zero."""

    @property
    def has_living(self) -> bool:
        """Whether a pod is left that has not finished, or that is still being deleted."""
        return self.pending + self.running + self.unknown + self.terminating > 0


def count(pods: ObservedPods, *, tasks: Container[str] | None = None, releasing: Iterable[Pod] = ()) -> Counts:
    """Count `pods` by phase.

    `tasks`: count only the pods of these tasks; None for all pods. The controller is about to delete the pods of `releasing`,
    so these pods count as terminating.
    """
    doomed = Counter(pods.states[pod.metadata.name] for pod in releasing)
    terminating = 0
    by_phase: Counter[tuple[str, PodPhase]] = Counter()
    for state, number in pods.numbers.items():
        if tasks is not None and state.task not in tasks:
            continue
        if state.is_finished and state.place in pods.progress:
            continue  # the state of their indexes counts
        staying = 0 if state.is_terminating else number - doomed[state]
        terminating += number - staying
        by_phase[state.task, state.phase] += staying
    for task, indexes in pods.gone.items():
        by_phase[task, PodPhase.SUCCEEDED] += len(indexes)
    for task, progress in pods.progress.items():
        by_phase[task, PodPhase.SUCCEEDED] += progress.count(progress.completed)
        by_phase[task, PodPhase.FAILED] += progress.count(progress.failed)
    totals: Counter[PodPhase] = Counter()
    by_task: dict[str, dict[str, int]] = {}
    for (task, phase), number in by_phase.items():
        totals[phase] += number
        if task and number:
            by_task.setdefault(task, {})[phase.value] = number
    numbers = {phase.value.lower(): totals[phase] for phase in PodPhase}
    return Counts(**numbers, terminating=terminating, by_task=by_task)


PLUGIN_MARK: Final = "plugin-"
"""The prefix of the keys of plugins in `status.controlledResources`."""


def counted(status: JobStatus, counts: Counts) -> JobStatus:
    """Return `status` with the pod numbers of `counts`."""
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
    """Return `status` with a new phase, reason and message."""
    state = msgspec.structs.replace(status.state, phase=phase, reason=reason, message=message)
    return msgspec.structs.replace(status, state=state)


def synchronised(status: JobStatus, now: float) -> JobStatus:
    """Return `status` with the timestamps of a synchronisation write, which always updates `lastTransitionTime`.

    Clients rely on this update.
    """
    return _touched(msgspec.structs.replace(status, running_duration=None), now)


def killed(job: Job, status: JobStatus, now: float) -> JobStatus:
    """Return `status` with the timestamps of a write that ends or restarts the Job.

    `lastTransitionTime` is updated only when the phase changed, and `runningDuration` is set to the age of the Job at that time.
    A phase that another client wrote counts as changed, because that write left the time and the conditions as they were.
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
    """Whether `one` and `other` are equal apart from timestamps, conditions and `status.waiting`."""
    return _timeless(one) == _timeless(other)


def is_quiet(old: JobStatus, new: JobStatus, *, has_no_group: bool = False) -> bool:
    """Whether `new` differs from `old` only in newly created, pending pods. No client acts on this difference.

    For a Job that has no PodGroup, the first status is quiet too: the only pod is created at once, and runs soon or waits.
    """
    if has_no_group and old.state.phase is JobPhase.NEW:
        return new.state.phase is JobPhase.PENDING and not new.state.message
    if new.pending <= old.pending or new.terminating != old.terminating:
        return False
    same = msgspec.structs.replace(
        new, pending=old.pending, task_status_count=old.task_status_count, tracked_pods=old.tracked_pods
    )
    return is_same(old, same)


def was_resumed(status: JobStatus) -> bool:
    """Whether a restarting Job was resumed after an abort; a resumed Job keeps its finished pods.

    The conditions are in the order of their last update, so the last condition before Restarting shows the previous phase.
    """
    before = [condition.status for condition in status.conditions if condition.status != JobPhase.RESTARTING]
    return bool(before) and before[-1] in (JobPhase.ABORTING, JobPhase.ABORTED)


def written(status: JobStatus) -> dict[str, Any]:
    """Return `status` in the form of the API, without fields that are zero or empty."""
    body: dict[str, Any] = msgspec.to_builtins(status)
    body |= {
        "state": _filled(body["state"]) | {"lastTransitionTime": status.state.last_transition_time},
        "after": [_filled({"met": each["met"], "jobs": [_filled(job) for job in each["jobs"]]}) for each in body["after"]],
        "trackedPods": _filled(body["trackedPods"]),
        "delayedActions": [_filled(action) for action in body["delayedActions"]],
        "waiting": _filled(body["waiting"] or {}),
        "conditions": list(body["conditions"]),
        "outputs": list(body["outputs"]),
        "arrays": {task: _filled(array) for task, array in body["arrays"].items()},
    }
    return _filled(body)


def _is_foreign(status: JobStatus) -> bool:
    """Whether the phase differs from the newest condition, so another client wrote the phase."""
    return bool(status.conditions) and status.conditions[-1].status != status.state.phase


def _filled(body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if value}


def _touched(status: JobStatus, now: float) -> JobStatus:
    at = format_time(now)
    phase = status.state.phase.value
    others = tuple(condition for condition in status.conditions if condition.status != phase)
    state: JobState = msgspec.structs.replace(status.state, last_transition_time=at)
    conditions = (*others, JobCondition(status=phase, last_transition_time=at))
    pods = msgspec.structs.replace(status.tracked_pods, at=at) if status.tracked_pods.at is not None else status.tracked_pods
    return msgspec.structs.replace(status, state=state, conditions=conditions, tracked_pods=pods)


def _timeless(status: JobStatus) -> JobStatus:
    state = msgspec.structs.replace(status.state, last_transition_time=None)
    return msgspec.structs.replace(status, state=state, conditions=(), running_duration=None, waiting=None)
