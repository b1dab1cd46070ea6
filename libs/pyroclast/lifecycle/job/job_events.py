"""Occurrences: what happened to a Job, derived from the state of its pods; and the policy that responds to each.

Occurrences are level-triggered: while a failed pod exists, its failure is an occurrence in every decision. An occurrence that has
its response disappears, because the response gives the Job a higher version or marks the pods. The controller remembers only
occurrences that no object shows: a deleted pod, and a PodGroup that became Unknown.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from pyroclast.api import keys
from pyroclast.api.enums import BusEvent, DisruptionReason, PodPhase
from pyroclast.api.records import Job, LifecyclePolicy, Pod, PodGroup, Task
from pyroclast.lifecycle.gang import members
from pyroclast.lifecycle.gang.members import ObservedPods
from pyroclast.lifecycle.gang.pods import partition_of
from pyroclast.lifecycle.job import tracked_pods
from pyroclast.lifecycle.times import lenient_seconds, parse_time

_DEFAULT_RESTARTS: Final = 3

MOST_OCCURRENCES: Final = 10_000
"""The most occurrences of one Job that are remembered, enough for one of each pod of most Jobs."""

_OF_DEPENDENT_PODS: Final = frozenset({BusEvent.POD_FAILED, BusEvent.POD_EVICTED, BusEvent.TASK_FAILED})
"""Events to which no policy responds when the pods of the task are independent, as a pod is made again without the others."""

_SHOWN_IN: Final = {
    PodPhase.FAILED: frozenset({BusEvent.POD_FAILED}),
    PodPhase.PENDING: frozenset({BusEvent.POD_PENDING, BusEvent.TASK_FAILED}),
    PodPhase.RUNNING: frozenset({BusEvent.TASK_FAILED}),
}
"""The events that a pod can show, by the phase of the pod."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Something that happened to a Job. `at`: the time, in seconds since the epoch.

    `pod` and `uid` are the name and the uid of the pod. For an occurrence that concerns no single pod, `pod` is empty, and `uid`
    is the uid of the PodGroup.
    """

    event: BusEvent
    at: float
    version: int
    task: str = ""
    pod: str = ""
    uid: str = ""
    partition: str = ""
    exit_code: int = 0
    """The exit code of a failed pod, which policies match; 0 for other occurrences."""
    last_exit: int = 0
    """The last exit code of containers that were restarted too often; 0 for other occurrences."""
    failure: str = ""
    """How a pod failed, as the end of a sentence; empty where nothing shows it."""

    def __str__(self) -> str:
        """Return a description of the occurrence for `status.state.message`."""
        match self.event:
            case BusEvent.POD_FAILED:
                code = f" with exit code {self.exit_code}" if self.exit_code else ""
                return f"pod {self.pod} of task {self.task} failed{self.failure or code}"
            case BusEvent.POD_EVICTED:
                return f"pod {self.pod} of task {self.task} was deleted"
            case BusEvent.POD_PENDING:
                return f"pod {self.pod} of task {self.task} is pending"
            case BusEvent.TASK_COMPLETED:
                return f"all pods of task {self.task} have succeeded, {self.pod} as the last"
            case BusEvent.TASK_FAILED:
                code = f", the last time with exit code {self.last_exit}" if self.last_exit else ""
                return f"the containers of pod {self.pod} of task {self.task} were restarted too often{code}"
            case BusEvent.UNKNOWN:
                return "some pods of the gang run while others cannot be placed"
            case _:
                return self.event.value


def observed(job: Job, pods: ObservedPods, successes: Iterable[Occurrence] = ()) -> Iterator[Occurrence]:
    """Yield the occurrences that `pods` show, for the events that the policies of `job` name.

    Marked pods and pods of an older version show no occurrences. `successes`: the successes of pods that were deleted since.
    """
    of_job, version = named_by(job.spec.policies), job.status.version
    for task in job.spec.tasks:
        named = (of_job | named_by(task.policies)) - (_OF_DEPENDENT_PODS if task.name in pods.progress else frozenset())
        phases = {phase for phase, events in _SHOWN_IN.items() if not named.isdisjoint(events)}
        yield from _of_pods(task, pods, phases, version)
        if BusEvent.TASK_COMPLETED in named:
            yield from _completion(job, task, pods, [each for each in successes if each.task == task.name])


def named_by(policies: Iterable[LifecyclePolicy]) -> frozenset[BusEvent]:
    """Return the events to which `policies` may respond."""
    named: set[BusEvent] = set()
    for policy in policies:
        named.update(policy.events)
        if policy.event is not None:
            named.add(policy.event)
        if policy.exit_code is not None:
            named.add(BusEvent.POD_FAILED)
    return frozenset(BusEvent) if BusEvent.ANY in named else frozenset(named)


def deleted(job: Job, pod: Pod, at: float, *, had_ended: bool = False) -> Occurrence | None:
    """Return what the deletion of `pod` means; None when the pod shows that the controller or the scheduler deleted it.

    `had_ended`: whether the pod had succeeded or failed before its deletion. Then it was not evicted. Its failure still counts.
    Its success is TaskCompleted, which holds when all pods of the task have succeeded. The scheduler deletes pods that never ran
    and whose gang cannot be completed. The controller only creates such pods again.
    """
    is_given_back = any(each.reason == DisruptionReason.GANG_RELEASED for each in pod.status.conditions)
    if is_given_back or members.is_released(job, pod):
        return None
    if not had_ended:
        return _occurrence(BusEvent.POD_EVICTED, pod, at)
    return _failed(pod) if pod.status.phase is PodPhase.FAILED else _occurrence(BusEvent.TASK_COMPLETED, pod, finished_at(pod))


def fell_apart(job: Job, group: PodGroup, at: float) -> Occurrence:
    """Return the occurrence that `group` is Unknown: some pods of the gang run while others cannot be placed."""
    return Occurrence(BusEvent.UNKNOWN, at, job.status.version, uid=group.metadata.uid)


def last_failure(pods: Iterable[Pod]) -> str:
    """Return the latest failure among `pods` as the beginning of a message; empty when no pod failed."""
    failed = [pod for pod in pods if pod.status.phase is PodPhase.FAILED and not members.is_turned_away(pod)]
    return f"{_failed(max(failed, key=finished_at))}; " if failed else ""


def missed(job: Job, pods: ObservedPods, at: float) -> Iterator[Occurrence]:
    """Yield an occurrence, with the time `at`, for each pod that `status.trackedPods` names and that is not among `pods`.

    Such a pod was deleted while no controller watched, or has only lost its labels.
    """
    for task, index in islice(tracked_pods.absent(job, pods), MOST_OCCURRENCES):
        name, partition = members.pod_name(job.metadata.name, task.name, index), partition_of(task, index) or ""
        yield Occurrence(BusEvent.POD_EVICTED, at, job.status.version, task.name, name, partition=partition)


def _of_pods(task: Task, pods: ObservedPods, phases: Collection[PodPhase], version: int) -> Iterator[Occurrence]:
    limit = task.max_retry or _DEFAULT_RESTARTS
    for pod in pods.where(lambda state: state.place == task.name and state.phase in phases and state.is_current(version)):
        if pod.status.phase is PodPhase.FAILED:
            yield _failed(pod)
        elif not pod.metadata.is_terminating:
            if 0 < limit <= members.restarts(pod):
                happened = _occurrence(BusEvent.TASK_FAILED, pod, finished_at(pod))
                yield dataclasses.replace(happened, last_exit=members.last_exit_code(pod))
            if pod.status.phase is PodPhase.PENDING:
                yield _occurrence(BusEvent.POD_PENDING, pod, _created_at(pod))


def _completion(job: Job, task: Task, pods: ObservedPods, successes: Iterable[Occurrence]) -> Iterator[Occurrence]:
    there = pods.where(lambda state: state.place == task.name and state.phase is PodPhase.SUCCEEDED)
    progress = pods.progress.get(task.name)
    if progress is not None:
        if progress.count(progress.completed) < progress.total:
            return
    elif len(there) + len(pods.gone.get(task.name, ())) < task.replicas:
        return
    shown = {pod.metadata.name: _occurrence(BusEvent.TASK_COMPLETED, pod, finished_at(pod)) for pod in there}
    last = max((*shown.values(), *successes), key=lambda each: each.at, default=None)
    if last is None or last.version < job.status.version:
        return  # the completion was seen when the last pod succeeded
    if last.pod not in shown or pods.states[last.pod].is_current(job.status.version):
        yield last


def _failed(pod: Pod) -> Occurrence:
    happened = _occurrence(BusEvent.POD_FAILED, pod, finished_at(pod))
    return dataclasses.replace(happened, exit_code=members.exit_code(pod), failure=members.failure(pod))


def _occurrence(event: BusEvent, pod: Pod, at: float) -> Occurrence:
    return Occurrence(
        event,
        at,
        version=members.version_of(pod),
        task=members.task_of(pod),
        pod=pod.metadata.name,
        uid=pod.metadata.uid,
        partition=pod.metadata.labels.get(keys.PARTITION_ID, ""),
    )


def finished_at(pod: Pod) -> float:
    """Return the latest time at which a container of `pod` ended; the creation time of `pod` when no container reports one."""
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    ended = (state.terminated for status in statuses for state in (status.state, status.last_state))
    return _latest((terminated.finished_at for terminated in ended if terminated), default=_created_at(pod))


def _created_at(pod: Pod) -> float:
    return _latest((pod.metadata.creation_timestamp,), default=0.0)


def _latest(times: Iterable[str | None], *, default: float) -> float:
    return max((parse_time(time) for time in times if time), default=default)


@dataclass(frozen=True, slots=True)
class Response:
    """The action that a policy triggers for an occurrence, `delay` seconds after the occurrence."""

    occurrence: Occurrence
    action: str
    delay: float = 0.0

    @property
    def due(self) -> float:
        """The time at which the action is due, in seconds since the epoch."""
        return self.occurrence.at + self.delay


def respond(job: Job, occurrence: Occurrence) -> Response | None:
    """Return the response of the first matching policy of the task, else of the Job; None when no policy matches.

    A policy for `PodPending` without a timeout is ignored, because every pod is pending at first.
    """
    if occurrence.event.is_internal or occurrence.version < job.status.version:
        return None
    task = next((task for task in job.spec.tasks if task.name == occurrence.task), None) if occurrence.task else None
    if task is not None and occurrence.event in _OF_DEPENDENT_PODS and (task.array is not None or task.independent_pods):
        return None
    policy = (_match(task.policies, occurrence) if task else None) or _match(job.spec.policies, occurrence)
    return Response(occurrence, policy.action, lenient_seconds(policy.timeout)) if policy else None


def _match(policies: Sequence[LifecyclePolicy], occurrence: Occurrence) -> LifecyclePolicy | None:
    return next((policy for policy in policies if _matches(policy, occurrence)), None)


def _matches(policy: LifecyclePolicy, occurrence: Occurrence) -> bool:
    events = {*policy.events, policy.event}
    if (occurrence.event in events or BusEvent.ANY in events) and (
        occurrence.event is not BusEvent.POD_PENDING or policy.timeout is not None
    ):
        return True
    return policy.exit_code is not None and policy.exit_code == occurrence.exit_code
