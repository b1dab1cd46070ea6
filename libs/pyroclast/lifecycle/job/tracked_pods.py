"""The pods that `status.trackedPods` names. A starting controller looks for these pods, so that it misses no deletion.

The status does not name pods that were never created. The controller removes a pod from the status before it deletes the pod.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import inf
from typing import Final, TypeAlias

from pyroclast.api.enums import PodPhase
from pyroclast.api.records import Job, JobStatus, Pod, Task, TrackedPods
from pyroclast.lifecycle.effects import DeletePods, Effect, MarkPods
from pyroclast.lifecycle.gang import members
from pyroclast.lifecycle.gang.members import ObservedPods, PodState
from pyroclast.lifecycle.job.phase_transitions import is_ending

Indexes: TypeAlias = Mapping[str, list[range]]

_RANGE: Final = re.compile(r"(\d+)(?:-(\d+))?")


def tracked(job: Job, pods: ObservedPods, status: JobStatus, leaving: Collection[str]) -> TrackedPods:
    """Return the new `trackedPods` of `status`: the started pods of its version, without the pods whose names are in `leaving`.

    Pending pods are left out, because a deleted pending pod is only created again. A terminating pod is named only if the last
    status names it, which shows that another client deleted the pod. While a Job ends, deletions need no response. The status
    then names the pods that must still be deleted, so that the controller also finds pods that lost their labels.
    """
    ends, before = is_ending(status.state.phase), _read(job)

    def is_named(state: PodState) -> bool:
        if ends:
            return not (state.is_terminating or state.is_finished)
        return state.phase is not PodPhase.PENDING and state.is_current(status.version)

    going = pods.where(lambda state: state.is_terminating and is_named(state))
    without = {*(() if ends else leaving), *(pod.metadata.name for pod in going if not _is_in(before, pod))}
    indexes: dict[str, str] = {}
    for task, names in pods.places.items():
        found = [index for index in pods.indexes(task, is_named) if names[index] not in without]
        if found:
            indexes[task] = _written(found)
    return TrackedPods(at=status.state.last_transition_time, indexes=indexes) if indexes else TrackedPods()


def leaving(effects: Iterable[Effect]) -> frozenset[str]:
    """Return the names of the pods that `effects` delete or mark."""
    return frozenset(victim.name for effect in effects if isinstance(effect, MarkPods | DeletePods) for victim in effect.victims)


def names_any_of(job: Job, pods: Iterable[Pod]) -> bool:
    """Whether `status.trackedPods` of `job` names any of `pods`."""
    indexes = _read(job)
    return any(_is_in(indexes, pod) for pod in pods)


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
    """Return the indexes of the pods that the status of `job` names, by task.

    Empty when the time of `trackedPods` is not the time of the state. In this case, an older release of the controller, which
    does not know the field, wrote the status later.
    """
    pods = job.status.tracked_pods
    if pods.at is None or pods.at != job.status.state.last_transition_time:
        return {}
    return {
        task: [range(int(found[1]), int(found[2] or found[1]) + 1) for found in _RANGE.finditer(text)]
        for task, text in pods.indexes.items()
    }


def _written(indexes: Sequence[int]) -> str:
    """Return ascending `indexes` as text with ranges, such as `0-4,7`."""
    firsts = [index for before, index in pairwise((-2, *indexes)) if index > before + 1]
    lasts = [index for index, after in pairwise((*indexes, inf)) if index + 1 < after]
    return ",".join(f"{first}-{last}" if first < last else f"{first}" for first, last in zip(firsts, lasts, strict=True))


def _is_in(indexes: Indexes, pod: Pod) -> bool:
    index = members.index_of(pod)
    return any(index in found for found in indexes.get(members.task_of(pod), ()))
