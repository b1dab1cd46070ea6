"""The pods that `status.trackedPods` names: a controller that starts looks for them, so that it misses no deletion.

Pods that were never made are not named, nor are those that the controller deletes itself: it takes them off before.
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
from pyroclast.lifecycle.gang.observed_pods import ObservedPods, PodState
from pyroclast.lifecycle.job.phase_transitions import is_ending

__all__ = ["absent", "leaving", "names_any_of", "released", "tracked"]

Indexes: TypeAlias = Mapping[str, list[range]]

_RANGE: Final = re.compile(r"(\d+)(?:-(\d+))?")


def tracked(job: Job, pods: ObservedPods, status: JobStatus, leaving: Collection[str]) -> TrackedPods:
    """What `status` is to name of `pods`: those of its version that have started, without those that are `leaving`, by name.

    One that waits is only made again, whoever deletes it. Of one that goes already, only the list of before tells whether
    somebody else deleted it. While a Job ends, deletions mean nothing: then it names the pods that are still to be deleted, so
    that none is overlooked that lost its labels.
    """
    ends, before = is_ending(status.state.phase), _read(job)

    def is_named(state: PodState) -> bool:
        if ends:
            return not (state.is_terminating or state.is_finished)
        return state.phase is not PodPhase.PENDING and state.is_current(status.version)

    going = pods.where(lambda state: state.is_terminating and is_named(state))
    without = {*(() if ends else leaving), *(pod.metadata.name for pod in going if not _is_in(before, pod))}
    indexes: dict[str, str] = {}
    for task, names in pods.names.items():
        found = [index for index in pods.indexes(task, is_named) if names[index] not in without]
        if found:
            indexes[task] = _written(found)
    return TrackedPods(at=status.state.last_transition_time, indexes=indexes) if indexes else TrackedPods()


def leaving(effects: Iterable[Effect]) -> frozenset[str]:
    """The names of the pods that `effects` let go."""
    return frozenset(victim.name for effect in effects if isinstance(effect, MarkPods | DeletePods) for victim in effect.victims)


def names_any_of(job: Job, pods: Iterable[Pod]) -> bool:
    """Whether the status of `job` names any of `pods`."""
    indexes = _read(job)
    return any(_is_in(indexes, pod) for pod in pods)


def absent(job: Job, pods: ObservedPods) -> Iterator[tuple[Task, int]]:
    """Task and index of each pod that the status of `job` names, that the spec has a place for, and that is not among `pods`."""
    indexes = _read(job)
    for task in job.spec.tasks:
        names = pods.names[task.name]
        for found in indexes.get(task.name, ()):
            places = (index for index in found[: task.replicas] if index < task.replicas)
            yield from ((task, index) for index in places if names[index] not in pods.states)


def released(job: Job, pods: ObservedPods) -> Iterator[str]:
    """The uids of those of `pods` that go and that the status of `job` does not name: the controller has deleted them."""
    indexes = _read(job)
    going = pods.where(lambda state: state.is_terminating)
    return (pod.metadata.uid for pod in going if not _is_in(indexes, pod))


def _read(job: Job) -> Indexes:
    """The indexes of the pods that the status of `job` names, by task.

    A status of another time was written later by a release that does not know these names: they mean nothing then.
    """
    pods = job.status.tracked_pods
    if pods.at is None or pods.at != job.status.state.last_transition_time:
        return {}
    return {
        task: [range(int(found[1]), int(found[2] or found[1]) + 1) for found in _RANGE.finditer(text)]
        for task, text in pods.indexes.items()
    }


def _written(indexes: Sequence[int]) -> str:
    """Ascending `indexes` as ranges, such as `0-4,7`."""
    firsts = [index for before, index in pairwise((-2, *indexes)) if index > before + 1]
    lasts = [index for index, after in pairwise((*indexes, inf)) if index + 1 < after]
    return ",".join(f"{first}-{last}" if first < last else f"{first}" for first, last in zip(firsts, lasts, strict=True))


def _is_in(indexes: Indexes, pod: Pod) -> bool:
    index = members.index_of(pod)
    return any(index in found for found in indexes.get(members.task_of(pod), ()))
