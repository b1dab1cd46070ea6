"""The phase changes of a Job that follow from the number of its pods in each phase: one rule per phase of the Job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pyroclast.api.enums import JobPhase, JobReason, PodPhase
from pyroclast.api.records import JobSpec
from pyroclast.lifecycle.gang.size import min_available, needed_pods, total_replicas
from pyroclast.lifecycle.job.counts import Counts


@dataclass(frozen=True, slots=True)
class Change:
    """A phase to enter, with the one-word reason and the message for `status.state`."""

    to: JobPhase
    reason: JobReason | None
    message: str


def following_phase(phase: JobPhase, spec: JobSpec, counts: Counts, retries: int) -> Change | None:
    """Return the change of phase that follows from `counts`; None when the phase stays. `retries` is `status.retryCount`."""
    return _RULES[phase](spec, counts, retries)


def _new(_: JobSpec, __: Counts, ___: int) -> Change:
    return Change(JobPhase.PENDING, None, "")


def _pending(spec: JobSpec, counts: Counts, _: int) -> Change | None:
    started, wanted = counts.running + counts.succeeded + counts.failed, min_available(spec)
    if started < wanted:
        return None
    return Change(JobPhase.RUNNING, JobReason.MIN_AVAILABLE_REACHED, f"{started} of the {wanted} pods needed have started")


def _running(spec: JobSpec, counts: Counts, _: int) -> Change | None:
    total, wanted = total_replicas(spec), min_available(spec)
    if total == 0:
        return None  # a Job that is scaled to zero may be scaled up again
    if spec.min_success is not None and counts.succeeded >= spec.min_success:
        message = f"{counts.succeeded} of the {spec.min_success} pods that must succeed have succeeded"
        return Change(JobPhase.COMPLETED, JobReason.MIN_SUCCESS_REACHED, message)
    if counts.succeeded + counts.failed == total:
        return _all_finished(spec, counts, wanted)
    if counts.pending > total - wanted:
        message = f"{counts.pending} of {total} pods are pending, {wanted} must run"
        return Change(JobPhase.PENDING, JobReason.NOT_ENOUGH_PODS, message)
    return None


def _all_finished(spec: JobSpec, counts: Counts, wanted: int) -> Change:
    outcome = f"{counts.succeeded} pods succeeded, {counts.failed} failed"
    if wanted >= sum(map(needed_pods, spec.tasks)):
        for task in spec.tasks:
            phases = counts.by_task.get(task.name)
            if task.min_available is None or phases is None:
                continue
            succeeded = phases.get(PodPhase.SUCCEEDED, 0)
            if succeeded < task.min_available:
                message = f"task {task.name}: {succeeded} pods succeeded, {task.min_available} must"
                return Change(JobPhase.FAILED, JobReason.TASK_MIN_AVAILABLE_NOT_REACHED, message)
    if spec.min_success is not None:
        message = f"{outcome}, {spec.min_success} must succeed"
        return Change(JobPhase.FAILED, JobReason.MIN_SUCCESS_NOT_REACHED, message)
    if counts.succeeded >= wanted:
        return Change(JobPhase.COMPLETED, JobReason.ALL_TASKS_FINISHED, outcome)
    return Change(JobPhase.FAILED, JobReason.ALL_TASKS_FINISHED, f"{outcome}, {wanted} must succeed")


def _restarting(spec: JobSpec, counts: Counts, retries: int) -> Change | None:
    if retries >= spec.max_retry:
        return Change(JobPhase.FAILED, JobReason.MAX_RETRY_REACHED, f"restarted {retries} times, which is the limit")
    if total_replicas(spec) - counts.terminating < (min_available(spec)):
        return None
    return Change(JobPhase.PENDING, JobReason.PODS_RELEASED, "the pods of before have gone")


def _at_rest(to: JobPhase) -> Callable[[JobSpec, Counts, int], Change | None]:
    def rule(_: JobSpec, counts: Counts, __: int) -> Change | None:
        return None if counts.has_living else Change(to, JobReason.PODS_RELEASED, "no pod is left that runs or waits")

    return rule


def _stays(_: JobSpec, __: Counts, ___: int) -> None:
    return None


_RULES: Final[Mapping[JobPhase, Callable[[JobSpec, Counts, int], Change | None]]] = {
    JobPhase.NEW: _new,
    JobPhase.PENDING: _pending,
    JobPhase.RUNNING: _running,
    JobPhase.RESTARTING: _restarting,
    JobPhase.ABORTING: _at_rest(JobPhase.ABORTED),
    JobPhase.ABORTED: _stays,
    JobPhase.COMPLETING: _at_rest(JobPhase.COMPLETED),
    JobPhase.COMPLETED: _stays,
    JobPhase.TERMINATING: _at_rest(JobPhase.TERMINATED),
    JobPhase.TERMINATED: _stays,
    JobPhase.FAILED: _stays,
}
