"""The pods that `status.trackedPods` names. A starting controller looks for these pods, so that it misses no deletion.

The status does not name pods that were never created. The controller removes a pod from the status before it deletes the pod.
The status also names the pods that have succeeded, so that a pod that somebody deletes after its success does not run again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain, takewhile
from typing import Final, TypeAlias

from pyroclast.api.enums import JobPhase, PodPhase
from pyroclast.api.records import Job, JobStatus, Pod, Task, TrackedPods
from pyroclast.lifecycle.effects import DeletePods, Effect, MarkPods
from pyroclast.lifecycle.gang import members
from pyroclast.lifecycle.gang.members import ObservedPods, PodState
from pyroclast.lifecycle.job.phase_transitions import is_ending
from pyroclast.lifecycle.job.status import was_resumed
from pyroclast.resources.indexes import spans_of, written

Indexes: TypeAlias = Mapping[str, list[range]]

_RANGE: Final = re.compile(r"(\d+)(?:-(\d+))?")


def tracked(job: Job, pods: ObservedPods, status: JobStatus, leaving: Collection[str]) -> TrackedPods:
    """Return the new `trackedPods` of `status`: the running pods of its version, without the pods whose names are in `leaving`.

    Pending pods are left out, because a deleted pending pod is only created again, and so are pods that had ended before their
    deletion. A terminating pod is named only if the last status names it, which shows that another client deleted the pod. While
    a Job ends, deletions need no response. The status then names the pods that must still be deleted, so that the controller also
    finds pods that lost their labels.
    """
    ends, before = is_ending(status.state.phase), _read(job)

    def is_named(state: PodState) -> bool:
        if ends:
            return not (state.is_terminating or state.is_finished)
        is_over = state.is_finished and not state.is_terminating  # a pod that ends during its deletion was evicted
        return state.phase is not PodPhase.PENDING and not is_over and state.is_current(status.version)

    going = pods.where(lambda state: state.is_terminating and is_named(state))
    without = {*(() if ends else leaving), *(pod.metadata.name for pod in going if not _is_in(before, pod))}
    indexes: dict[str, str] = {}
    for task, names in pods.places.items():
        if task in pods.progress and not ends:
            continue  # an independent pod that was deleted is made again, and nothing else follows
        found = [index for index in pods.indexes(task, is_named) if names[index] not in without]
        if found:
            indexes[task] = written(spans_of(found))
    succeeded = {task: written(spans_of(found)) for task, found in _successes(job, pods, status, () if ends else leaving)}
    if not (indexes or succeeded):
        return TrackedPods()
    return TrackedPods(at=status.state.last_transition_time, indexes=indexes, succeeded=succeeded)


def _successes(job: Job, pods: ObservedPods, status: JobStatus, without: Collection[str]) -> Iterator[tuple[str, list[int]]]:
    """Yield the tasks and the indexes of their pods that have succeeded, without the pods whose names are in `without`.

    A restart of the whole Job forgets all successes; until it begins, the pods that succeeded before an abort still count.
    """
    forgets = status.state.phase is JobPhase.RESTARTING and not was_resumed(status)
    if forgets and status.version > job.status.version:
        return
    before = succeeded(job)

    def has_succeeded(state: PodState) -> bool:
        return state.phase is PodPhase.SUCCEEDED and not state.is_marked

    def is_new(state: PodState) -> bool:
        return not (state.is_terminating or (forgets and state.version < status.version))

    for task, names in pods.places.items():
        if task in pods.progress:
            continue  # `status.arrays` names them
        known, gone = frozenset(before.get(task, ())), pods.gone.get(task, frozenset())
        indexes = [index for index in pods.indexes(task, has_succeeded) if names[index] not in without]
        found = gone.union(index for index in indexes if index in known or is_new(pods.states[names[index]]))
        if found:
            yield task, sorted(found)


def succeeded(job: Job) -> Mapping[str, Iterator[int]]:
    """Return the ascending indexes by task of the pods that have succeeded, as the status of `job` names them."""
    return {task: chain.from_iterable(ranges) for task, ranges in _named(job, job.status.tracked_pods.succeeded).items()}


def is_success(job: Job, pod: Pod) -> bool:
    """Whether the status of `job` names `pod` as one that has succeeded."""
    index = members.index_of(pod)
    return any(index in found for found in _named(job, job.status.tracked_pods.succeeded).get(members.task_of(pod), ()))


def leaving(effects: Iterable[Effect]) -> frozenset[str]:
    """Return the names of the pods that `effects` delete or mark."""
    return frozenset(victim.name for effect in effects if isinstance(effect, MarkPods | DeletePods) for victim in effect.victims)


def names_forgotten(job: Job, pods: ObservedPods) -> bool:
    """Whether `status.trackedPods` of `job` names a success that `pods` do not contain, as the pod is to run again."""
    ended = succeeded(job)
    limits = {task: pods.replicas.get(task, 0) for task in ended}
    return any(
        index not in pods.places[task] and index not in pods.gone.get(task, ())
        for task, indexes in ended.items()
        for index in takewhile(limits[task].__gt__, indexes)
    )


def names_any_of(job: Job, pods: Iterable[Pod]) -> bool:
    """Whether `status.trackedPods` of `job` names any of `pods`."""
    indexes, ended = _read(job), _named(job, job.status.tracked_pods.succeeded)
    return any(_is_in(indexes, pod) or _is_in(ended, pod) for pod in pods)


def absent(job: Job, pods: ObservedPods) -> Iterator[tuple[Task, int]]:
    """Yield the task and index of each pod that the status and the spec of `job` name and that is not among `pods`."""
    indexes = _read(job)
    for task in job.spec.tasks:
        there = pods.places[task.name]
        for found in indexes.get(task.name, ()):
            places = (index for index in found[: task.replicas] if index < task.replicas)
            yield from ((task, index) for index in places if index not in there)


def released(job: Job, pods: ObservedPods) -> Iterator[str]:
    """Return the uids of terminating pods that the status of `job` does not name; the controller has deleted these pods."""
    indexes = _read(job)
    going = pods.where(lambda state: state.is_terminating)
    return (pod.metadata.uid for pod in going if not _is_in(indexes, pod))


def _read(job: Job) -> Indexes:
    return _named(job, job.status.tracked_pods.indexes)


def _named(job: Job, texts: Mapping[str, str]) -> Indexes:
    """Return the indexes in `texts` of `status.trackedPods`, by task.

    Empty when the time of `trackedPods` is not the time of the state. In this case, an older release of the controller, which
    does not know the field, wrote the status later. A range that does not follow the range before it is left out.
    """
    at = job.status.tracked_pods.at
    if at is None or at != job.status.state.last_transition_time:
        return {}
    named: dict[str, list[range]] = {}
    for task, text in texts.items():
        ranges = named.setdefault(task, [])
        for found in _RANGE.finditer(text):
            first, last = int(found[1]), int(found[2] or found[1])
            if not ranges or first >= ranges[-1].stop:
                ranges.append(range(first, last + 1))
    return named


def _is_in(indexes: Indexes, pod: Pod) -> bool:
    index = members.index_of(pod)
    return any(index in found for found in indexes.get(members.task_of(pod), ()))
