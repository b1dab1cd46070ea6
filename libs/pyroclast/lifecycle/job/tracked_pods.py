"""The pods that `status.trackedPods` names: a controller that starts looks for them, so that it misses no deletion.

Pods that were never made are not named, nor are those that the controller deletes itself: it takes them off before.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from pyroclast.api.enums import PodPhase
from pyroclast.api.records import Job, JobStatus, Pod, Task, TrackedPods
from pyroclast.lifecycle.effects import DeletePods, Effect, MarkPods
from pyroclast.lifecycle.gang import members
from pyroclast.lifecycle.job.phase_transitions import is_ending

__all__ = ["absent", "leaving", "names_any_of", "released", "tracked"]

Indexes: TypeAlias = Mapping[str, list[range]]

_RANGE: Final = re.compile(r"(\d+)(?:-(\d+))?")


def tracked(job: Job, pods: Mapping[str, Pod], status: JobStatus, leaving: Collection[str]) -> TrackedPods:
    """What `status` is to name of `pods`: those of its version that have started, without those whose uids are in `leaving`.

    One that waits is only made again, whoever deletes it. While a Job ends, deletions mean nothing: then it names the pods that
    are still to be deleted, so that none is overlooked that lost its labels.
    """
    before = _read(job)
    indexes: dict[str, str] = {}
    for task in job.spec.tasks:
        there = enumerate(map(pods.get, members.pod_names(job.metadata.name, task.name, task.replicas)))
        if is_ending(status.state.phase):
            found = [index for index, pod in there if pod and not (pod.metadata.is_terminating or members.is_finished(pod))]
        else:
            found = [index for index, pod in there if pod and pod.metadata.uid not in leaving and _counts(pod, status, before)]
        if found:
            indexes[task.name] = _written(found)
    return TrackedPods(at=status.state.last_transition_time, indexes=indexes) if indexes else TrackedPods()


def leaving(effects: Iterable[Effect]) -> frozenset[str]:
    """The uids of the pods that `effects` let go."""
    return frozenset(victim.uid for effect in effects if isinstance(effect, MarkPods | DeletePods) for victim in effect.victims)


def names_any_of(job: Job, pods: Iterable[Pod]) -> bool:
    """Whether the status of `job` names any of `pods`."""
    indexes = _read(job)
    return any(_is_in(indexes, pod) for pod in pods)


def absent(job: Job, pods: Mapping[str, Pod]) -> Iterator[tuple[Task, int]]:
    """Task and index of each pod that the status of `job` names, that the spec has a place for, and that is not among `pods`."""
    indexes = _read(job)
    for task in job.spec.tasks:
        names = members.pod_names(job.metadata.name, task.name, task.replicas)
        for found in indexes.get(task.name, ()):
            yield from ((task, index) for index in found[: task.replicas] if index < len(names) and names[index] not in pods)


def released(job: Job, pods: Iterable[Pod]) -> Iterator[str]:
    """The uids of those of `pods` that go and that the status of `job` does not name: the controller has deleted them."""
    indexes = _read(job)
    return (pod.metadata.uid for pod in pods if pod.metadata.is_terminating and not _is_in(indexes, pod))


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


def _written(indexes: Iterable[int]) -> str:
    """Ascending `indexes` as ranges, such as `0-4,7`."""
    ranges: list[list[int]] = []
    for index in indexes:
        if ranges and ranges[-1][-1] == index - 1:
            ranges[-1][1:] = [index]
        else:
            ranges.append([index])
    return ",".join("-".join(map(str, each)) for each in ranges)


def _counts(pod: Pod, status: JobStatus, before: Indexes) -> bool:
    """Whether it would be somebody else who deletes `pod`; of one that goes already only the list of before tells."""
    return (
        pod.status.phase is not PodPhase.PENDING
        and not members.is_marked(pod)
        and members.version_of(pod) >= status.version
        and (not pod.metadata.is_terminating or _is_in(before, pod))
    )


def _is_in(indexes: Indexes, pod: Pod) -> bool:
    index = members.index_of(pod)
    return any(index in found for found in indexes.get(members.task_of(pod), ()))
