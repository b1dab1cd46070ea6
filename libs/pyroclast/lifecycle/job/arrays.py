"""What the independent pods of a Job mean for it: the state of their indexes, the pods that are no longer needed, and the end.

The state of an index is written to the status before its pod is deleted. A failed pod has the number of failures before it, so
that a controller that is killed between the two writes counts no failure twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from pyroclast.api.enums import JobPhase, JobReason, PodPhase
from pyroclast.api.records import ArrayStatus, Job, JobSpec, JobStatus, Pod
from pyroclast.lifecycle.gang import members
from pyroclast.lifecycle.gang.arrays import Progress, tries_of
from pyroclast.lifecycle.gang.members import ObservedPods, PodState
from pyroclast.lifecycle.job import restarts
from pyroclast.lifecycle.job.facts import JobFacts
from pyroclast.lifecycle.job.job_events import finished_at
from pyroclast.lifecycle.job.phase_transitions import Change
from pyroclast.lifecycle.job.status import Counts, was_resumed
from pyroclast.resources import indexes

_MOST_KEPT: Final = 16
"""How many pods of failed indexes of a task stay for inspection: those with the lowest indexes."""

_MOST_SHOWN: Final = 60
"""The most characters of a list of indexes in a message."""


def recorded(job: Job, pods: ObservedPods, status: JobStatus) -> JobStatus:
    """Return `status` with the state of the indexes, and with the number of pods that failed over all tries.

    A restart of the whole Job forgets the states of the indexes, as all of them run again. The number of failed pods lasts.
    """
    is_counted = bool(pods.progress) or job.spec.max_failed_pods is not None
    failures = sum(progress.new_failures for progress in pods.progress.values())
    forgets = status.state.phase is JobPhase.RESTARTING and status.version > job.status.version and not was_resumed(status)
    states = (
        {} if forgets else {task: each for task, found in pods.progress.items() if (each := found.written()) != ArrayStatus()}
    )
    return msgspec.structs.replace(status, arrays=states, failed_pods=status.failed_pods + failures if is_counted else 0)


def present_failures(job: Job, pods: ObservedPods) -> int:
    """Return how many failed pods `status.failedPods` does not count yet, as they are still there; see `leaving`."""
    independent = sum(progress.new_failures for progress in pods.progress.values())
    return independent + sum(number for state, number in pods.numbers.items() if _is_counted_later(job, pods, state))


def leaving(job: Job, pods: ObservedPods, status: JobStatus, *, whole: bool, releasing: tuple[Pod, ...] = ()) -> JobStatus:
    """Return `status`, which begins a restart or an end, with the failed pods that it releases in `failedPods`.

    `whole`: whether all pods get an older version; else only those of `releasing` are deleted.
    """
    if job.spec.max_failed_pods is None and not pods.progress:
        return status
    going = pods.where(lambda state: _is_counted_later(job, pods, state)) if whole else releasing
    failed = [pod for pod in going if pod.status.phase is PodPhase.FAILED and members.task_of(pod) not in pods.progress]
    return msgspec.structs.replace(status, failed_pods=status.failed_pods + len(failed))


def _is_counted_later(job: Job, pods: ObservedPods, state: PodState) -> bool:
    is_failed = state.phase is PodPhase.FAILED and bool(state.place) and state.place not in pods.progress
    return is_failed and state.is_current(job.status.version)


def superfluous(facts: JobFacts) -> tuple[Pod, ...]:
    """Return the pods of indexes whose end the status names, those to be replaced now, and those of cancelled indexes."""
    return tuple(pod for task, progress in facts.pods.progress.items() for pod in _superfluous(facts, task, progress))


def replacement_at(facts: JobFacts) -> float | None:
    """Return when the next failed pod is replaced, in seconds since the epoch; None when none waits for that."""
    times = (
        _replaced_at(facts, pod)
        for task, progress in facts.pods.progress.items()
        for index, pod in _failed(facts.pods, task)
        if index in progress.failures
    )
    return min((time for time in times if time > facts.now), default=None)


def _superfluous(facts: JobFacts, task: str, progress: Progress) -> Iterator[Pod]:
    pods, before, kept = facts.pods, progress.recorded, 0
    for index, name in pods.places[task].items():
        pod, state = pods.by_name[name], pods.states[name]
        if state.is_terminating:
            continue
        if indexes.has(progress.failed, index) and state.phase is PodPhase.FAILED:
            kept += 1
            if indexes.has(before, index) and kept > _MOST_KEPT and not progress.array.keep_pods:
                yield pod
        elif indexes.has(progress.cancelled, index):
            if not state.is_finished or (indexes.has(before, index) and not progress.array.keep_pods):
                yield pod
        elif state.phase is PodPhase.SUCCEEDED:
            if indexes.has(before, index) and not progress.array.keep_pods:
                yield pod
        elif state.phase is PodPhase.FAILED:
            is_recorded = progress.recorded_failures.get(index, 0) > tries_of(pod)
            if is_recorded and _replaced_at(facts, pod) <= facts.now:
                yield pod


def _failed(pods: ObservedPods, task: str) -> Iterator[tuple[int, Pod]]:
    for index in pods.indexes(task, lambda state: state.phase is PodPhase.FAILED and not state.is_terminating):
        yield index, pods.by_name[pods.places[task][index]]


def _replaced_at(facts: JobFacts, pod: Pod) -> float:
    """Return when failed `pod` is replaced: some time after its end by the clock of its node, which need not be exact."""
    pause = restarts.pause_of_pod(facts.job, tries_of(pod) + 1, rejected=members.never_ran(pod))
    return finished_at(pod) + pause if pause else facts.now


def effective(spec: JobSpec, pods: ObservedPods) -> JobSpec:
    """Return `spec` without cancelled indexes: they need no pod, and no gang waits for them."""
    left = {task: progress.total for task, progress in pods.progress.items() if progress.cancelled}
    return members.with_fewer_pods(spec, left) if left else spec


def end(facts: JobFacts, counts: Counts) -> Change | None:
    """Return the end of a Job with too many failures, or of which all indexes have ended; None when other rules decide."""
    job, pods, phase = facts.job, facts.pods, facts.job.status.state.phase
    most, failed = job.spec.max_failed_pods, job.status.failed_pods + present_failures(job, pods)
    if phase not in (JobPhase.PENDING, JobPhase.RUNNING, JobPhase.RESTARTING):
        return None
    if most is not None and failed > most:
        message = f"{failed} pod{'' if failed == 1 else 's'} failed, at most {most} may"
        return Change(JobPhase.FAILED, JobReason.MAX_FAILED_PODS, message)
    of_arrays = [
        (task, pods.progress[task.name]) for task in job.spec.tasks if task.array is not None and task.name in pods.progress
    ]
    for task, progress in of_arrays:
        failed, total = progress.count(progress.failed), indexes.number(progress.ranges)
        limit = allowed(progress.array.max_failures, total)
        if limit is not None and failed > limit:
            given = f", which is {progress.array.max_failures}" if isinstance(progress.array.max_failures, str) else ""
            message = (
                f"task {task.name}: {failed} of {total} indexes failed ({shown(progress.failed)}), at most {limit} may{given}"
            )
            return Change(JobPhase.FAILED, JobReason.MAX_FAILURES, message)
    if phase is JobPhase.RESTARTING or not of_arrays or counts.has_living or any(progress.left for _, progress in of_arrays):
        return None
    ends = effective(job.spec, pods)
    if counts.succeeded + counts.failed < sum(task.replicas for task in ends.tasks):
        return None
    if not any(task.replicas for task in ends.tasks):
        return Change(JobPhase.FAILED, JobReason.ALL_TASKS_FINISHED, "all indexes were cancelled")
    for task, progress in of_arrays:
        failed, total = progress.count(progress.failed), indexes.number(progress.ranges)
        if failed and progress.array.max_failures is None and job.spec.min_success is None:
            message = f"task {task.name}: {failed} of {total} indexes failed ({shown(progress.failed)})"
            return Change(JobPhase.FAILED, JobReason.ALL_TASKS_FINISHED, message)
    return None


def allowed(limit: int | str | None, total: int) -> int | None:
    """Return how many of `total` indexes may fail; None without a limit. A per cent is rounded down."""
    if limit is None or isinstance(limit, int):
        return limit
    digits = limit.removesuffix("%")
    return int(digits) * total // 100 if digits.isascii() and digits.isdecimal() and len(digits) <= len("100") else None


def shown(spans: indexes.Spans) -> str:
    """Return indexes for a message, the first ones of many."""
    text = indexes.written(spans)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN].rpartition(',')[0]},…"
