"""The pods of a Job: names, labels, annotations, the size of the gang, and an index of the existing pods by place and state.

The index is made once for a decision, so that no rule iterates over all pods again. It grows with the pods that exist, not
with `replicas`, which is any number that a user wrote.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final

import msgspec

from pyroclast.api import keys
from pyroclast.api.enums import PodPhase
from pyroclast.api.records import ArrayStatus, Job, JobSpec, Meta, OwnerReference, Pod, Task
from pyroclast.api.types import JOBS, Key
from pyroclast.lifecycle.gang import arrays
from pyroclast.lifecycle.gang.arrays import Progress
from pyroclast.lifecycle.times import lenient_seconds
from pyroclast.resources.indexes import contains, spans_of, union


def needed_pods(task: Task) -> int:
    """Return how many pods of `task` the gang needs: `minAvailable`, or all pods when that is not set."""
    return task.replicas if task.min_available is None else task.min_available


def min_available(spec: JobSpec) -> int:
    """Return the size of the gang: `minAvailable` of the Job, or the sum over its tasks when that is not set."""
    return sum(map(needed_pods, spec.tasks)) if spec.min_available is None else spec.min_available


def total_replicas(spec: JobSpec) -> int:
    """Return the desired number of pods of the Job."""
    return sum(task.replicas for task in spec.tasks)


def with_fewer_pods(spec: JobSpec, left: Mapping[str, int], least: int = 0) -> JobSpec:
    """Return `spec` with only `left` pods in some tasks. The gang then needs fewer pods, but at least `least` if it needs any."""
    tasks = tuple(
        task
        if (number := left.get(task.name)) is None
        else msgspec.structs.replace(task, replicas=number, min_available=min(needed_pods(task), number))
        for task in spec.tasks
    )
    gang, less = min_available(spec), sum(map(needed_pods, spec.tasks)) - sum(map(needed_pods, tasks))
    return msgspec.structs.replace(spec, tasks=tasks, min_available=max(least, gang - less) if gang else 0)


def estimate(spec: JobSpec) -> str | None:
    """Return the estimate of the Job's run time, which is at most `maxRunTime`; None without either."""
    given, most = spec.running_estimate, spec.max_run_time
    return given if not most or (given and lenient_seconds(given) <= lenient_seconds(most)) else most


OURS: Final = "batch.volcano.sh/job-controller"
"""The value of `spec.managedBy` that stands for the Job controller of Pyroclast, as an absent value does."""


def is_managed_elsewhere(job: Job) -> bool:
    """Whether the controller of another program manages `job`."""
    return job.spec.managed_by not in ("", OURS)


def is_ours(job: Job, meta: Meta) -> bool:
    """Whether the object with `meta` belongs to `job`, compared by UID, and not to another Job of the same name."""
    return any(owner.uid == job.metadata.uid for owner in meta.owner_references)


_FINISHED: Final = (PodPhase.SUCCEEDED, PodPhase.FAILED)


def pod_name(job: str, task: str, index: int) -> str:
    """Return the name of pod `index` of a task."""
    return f"{job}-{task}-{index}"


def place_of(job: str, name: str) -> tuple[str, int]:
    """Return the task and the index in `name`, the name of a pod of `job`; the index is -1 when it is no such name.

    It is the inverse of `pod_name`. So the pods that exist tell their places, and no code has to make the names of all replicas:
    the number of replicas is whatever a user wrote.
    """
    head, _, digits = name.rpartition("-")
    is_index = digits.isascii() and digits.isdecimal() and (digits[0] != "0" or digits == "0")
    return (head[len(job) + 1 :], int(digits)) if is_index and head.startswith(f"{job}-") else ("", -1)


def group_name(job: Job) -> str:
    """Return the name of the Job's PodGroup."""
    return f"{job.metadata.name}-{job.metadata.uid}"


def owner_of(pod: Pod) -> OwnerReference | None:
    """Return the owner reference to the Job that controls `pod`; None when no Job does."""
    return pod.metadata.controller_of(JOBS)


def owner_uid(pod: Pod) -> str:
    """Return the UID of the Job that controls `pod`; empty when no Job does."""
    owner = owner_of(pod)
    return owner.uid if owner else ""


def job_key(pod: Pod) -> Key | None:
    """Return the key of the Job that controls `pod`; None when no Job does."""
    owner = owner_of(pod)
    return Key(pod.metadata.namespace, owner.name) if owner else None


def task_of(pod: Pod) -> str:
    """Return the name of the task to which `pod` belongs; empty when the pod has no such annotation."""
    return pod.metadata.annotations.get(keys.TASK_SPEC, "")


def index_of(pod: Pod) -> int:
    """Return the index of `pod` in its task; -1 when its name has no index."""
    index = pod.metadata.name.rpartition("-")[2]
    return int(index) if index.isdecimal() else -1


def version_of(pod: Pod) -> int:
    """Return the version of the Job at the creation of `pod`; -1, lower than any version, without the annotation."""
    version = pod.metadata.annotations.get(keys.JOB_VERSION, "")
    return int(version) if version.isdecimal() else -1


def is_marked(pod: Pod) -> bool:
    """Whether the controller has marked `pod` because the controller is about to delete the pod."""
    return keys.OUT_OF_SYNC in pod.metadata.annotations


def is_released(job: Job, pod: Pod) -> bool:
    """Whether the controller deletes `pod` on purpose: it is marked, of an older version of `job`, surplus, or turned away."""
    task = next((task for task in job.spec.tasks if task.name == task_of(pod)), None)
    is_surplus = task is None or not arrays.has_index(task, index_of(pod))
    return is_marked(pod) or version_of(pod) < job.status.version or is_surplus or is_turned_away(pod)


def named(job: Job) -> Job:
    """Return `job` with a name for each task: tasks without a name get the name that admission would have set.

    The replicas of an array task become the number of its indexes.
    """
    if all(task.name and task.array is None for task in job.spec.tasks):
        return job
    tasks = tuple(
        arrays.sized(task if task.name else msgspec.structs.replace(task, name=f"default{index}"))
        for index, task in enumerate(job.spec.tasks)
    )
    return msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, tasks=tasks))


_DEADLINE = "DeadlineExceeded"
_PLAIN_ENDS = frozenset({"", "Error"})
"""Reasons of the end of a container that tell no more than its exit code."""
_LONGEST_FAILURE = 300


def is_finished(pod: Pod) -> bool:
    """Whether `pod` has succeeded or failed."""
    return pod.status.phase in _FINISHED


def exit_code(pod: Pod) -> int:
    """Return the exit code of the first container of `pod`; 0 while the container has not ended."""
    terminated = pod.status.container_statuses[0].state.terminated if pod.status.container_statuses else None
    return terminated.exit_code if terminated else 0


def failure(pod: Pod) -> str:
    """Return how `pod` failed, as the end of a sentence: the exit code, the reason, the container, the words of the kubelet.

    An example is " with exit code 137 (OOMKilled, container train)". The container is named where there are several, and an init
    container always. Containers come before init containers, as kubelet ends sidecars when a container has failed. Empty when the
    pod tells nothing.
    """
    ends = [
        (kind, status.name, status.state.terminated)
        for kind, statuses in (
            ("container", pod.status.container_statuses),
            ("init container", pod.status.init_container_statuses),
        )
        for status in statuses
        if status.state.terminated is not None and status.state.terminated.exit_code
    ]
    details = [": ".join(filter(None, (pod.status.reason, pod.status.message)))]
    code = 0
    if ends:
        kind, name, end = ends[0]
        code = end.exit_code
        details.append("" if end.reason in _PLAIN_ENDS else end.reason)
        details.append(end.message.strip() if end.reason not in _PLAIN_ENDS else "")
        is_only = kind == "container" and len(pod.status.container_statuses) == 1 and not any(details)
        details.append("" if is_only else f"{kind} {name}")
    said = ", ".join(filter(None, details))
    text = (f" with exit code {code}" if code else "") + (f" ({said})" if said else "")
    return text if len(text) <= _LONGEST_FAILURE else f"{text[:_LONGEST_FAILURE]}…"


def never_ran(pod: Pod) -> bool:
    """Whether `pod` failed before any container ran, as a kubelet rejected it or evicted it at once."""
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return pod.status.phase is PodPhase.FAILED and not any(
        each.state.terminated or each.last_state.terminated for each in statuses
    )


def is_turned_away(pod: Pod) -> bool:
    """Whether `pod` was created on the node of its seat, and the kubelet of that node rejected it before any container ran.

    The room of a seat may be taken meanwhile, because another scheduler does not see seats. Neither the Job nor its user can do
    anything about it, so such a pod is created again without counting as a failure.
    """
    is_seated = keys.CREATED_ON_NODE in pod.metadata.annotations
    return is_seated and never_ran(pod) and pod.status.reason != _DEADLINE


def last_exit_code(pod: Pod) -> int:
    """Return the first exit code other than 0 of a restarted container of `pod`; 0 when there is none."""
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    ended = (status.last_state.terminated or status.state.terminated for status in statuses if status.restart_count)
    return next((terminated.exit_code for terminated in ended if terminated and terminated.exit_code), 0)


def restarts(pod: Pod) -> int:
    """Return the number of restarts of the containers of `pod`, init containers included."""
    return sum(status.restart_count for status in (*pod.status.init_container_statuses, *pod.status.container_statuses))


@dataclass(frozen=True, slots=True, eq=False)
class PodState:
    """The properties of a pod that decisions read. Pods with equal properties share one state, which is compared by identity."""

    task: str
    """The task in the annotation of the pod; empty without the annotation."""
    version: int
    """The version of the Job in the annotation of the pod; -1, older than any version, without the annotation."""
    phase: PodPhase
    is_terminating: bool
    is_marked: bool
    """Whether the controller has marked the pod for deletion."""
    place: str
    """The task whose replicas include the name of the pod; empty for a surplus pod."""

    @property
    def is_finished(self) -> bool:
        """Whether the pod has succeeded or failed."""
        return self.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)

    def is_current(self, version: int) -> bool:
        """Whether the pod belongs to `version` of the Job or a later one, and is not marked for deletion."""
        return self.version >= version and not self.is_marked


@dataclass(frozen=True, slots=True)
class ObservedPods:
    """The pods that a Job controls."""

    by_name: Mapping[str, Pod] = field(default_factory=dict)
    replicas: Mapping[str, int] = field(default_factory=dict)
    """The number of replicas of each task in the spec; of an array, the number above its highest index."""
    places: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    """The names of the existing pods of each task by index, in ascending order."""
    states: Mapping[str, PodState] = field(default_factory=dict)
    """The state of each pod by name, in the order of tasks and indexes; surplus pods are last."""
    numbers: Mapping[PodState, int] = field(default_factory=dict)
    """The number of pods in each state."""
    gone: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """The indexes by task of the pods that succeeded and were deleted afterwards. They count as succeeded and are not missing."""
    progress: Mapping[str, Progress] = field(default_factory=dict)
    """The state of the indexes of each task whose pods are independent of each other. `gone` has no such task."""

    def turned_away(self) -> tuple[Pod, ...]:
        """Return the pods that were turned away and are not being deleted yet."""
        return tuple(
            pod for pod in self.where(lambda state: state.version < 0 and not state.is_terminating) if is_turned_away(pod)
        )

    @classmethod
    def of(cls, job: Job, pods: Mapping[str, Pod], succeeded: Iterable[tuple[str, Iterator[int]]] = ()) -> ObservedPods:
        """Return the index of `pods`, the pods of `job` by name. The tasks of `job` must have names.

        `succeeded`: tasks, and the ascending indexes of their pods that have succeeded, whether the pods still exist or not.
        """
        replicas = {task.name: arrays.limit_of(task) for task in job.spec.tasks}
        independent = {task.name: array for task in job.spec.tasks if (array := arrays.array_of(job.spec, task)) is not None}
        ranges = {name: arrays.read(array, ArrayStatus()).ranges for name, array in independent.items()}
        found: dict[str, list[tuple[int, str]]] = {task: [] for task in replicas}
        surplus: list[str] = []
        for name in pods:
            task, index = place_of(job.metadata.name, name)
            if 0 <= index < replicas.get(task, 0) and (task not in ranges or contains(ranges[task], index)):
                found[task].append((index, name))
            else:
                surplus.append(name)
        places = {task: dict(sorted(row)) for task, row in found.items()}
        states: dict[str, PodState] = {}
        for task, names in places.items():
            states |= _states(names.values(), pods, task)
        states |= _states(surplus, pods, "")
        gone: dict[str, frozenset[int]] = {}
        ended: dict[str, set[int]] = {task: set() for task in independent}
        for task, indexes in succeeded:
            within = takewhile(replicas.get(task, 0).__gt__, indexes)
            if task in ended:
                ended[task].update(within)
                continue
            if absent := frozenset(within).difference(places.get(task, ())):
                gone[task] = gone.get(task, frozenset()) | absent
        progress: dict[str, Progress] = {}
        waiting = arrays.waiting_indexes(job) if independent and job.spec.after else ()
        for task, array in independent.items():
            there = [(index, pods[name], states[name].is_current(job.status.version)) for index, name in places[task].items()]
            seen = arrays.observed(array, job.status.arrays.get(task, ArrayStatus()), there, ended[task])
            progress[task] = dataclasses.replace(seen, waiting=waiting) if waiting else seen
        return cls(dict(pods), replicas, places, states, Counter(states.values()), gone, progress)

    def without(self, again: Mapping[str, Collection[int]]) -> ObservedPods:
        """Return these pods, in which the indexes `again` by task do not count as succeeded any more."""
        gone = {task: rest for task, indexes in self.gone.items() if (rest := indexes.difference(again.get(task, ())))}
        return dataclasses.replace(self, gone=gone) if again else self

    def filled(self, task: str) -> int:
        """Return how many indexes of `task` have a pod, or need none any more."""
        if (progress := self.progress.get(task)) is not None:
            return progress.count(union(progress.ended, spans_of(self.places[task])))
        return len(self.places[task]) + len(self.gone.get(task, ()))

    def living(self, task: str) -> int:
        """Return how many pods of `task` have not ended."""
        return sum(number for state, number in self.numbers.items() if state.place == task and not state.is_finished)

    @property
    def has_living(self) -> bool:
        """Whether a pod has not ended."""
        return not all(state.is_finished for state in self.numbers)

    def where(self, is_wanted: Callable[[PodState], bool]) -> tuple[Pod, ...]:
        """Return the pods whose state satisfies `is_wanted`, in the order of tasks and indexes."""
        wanted = set(filter(is_wanted, self.numbers))
        return tuple(self.by_name[name] for name, state in self.states.items() if state in wanted) if wanted else ()

    def indexes(self, task: str, is_wanted: Callable[[PodState], bool]) -> list[int]:
        """Return the indexes of the pods of `task` whose state satisfies `is_wanted`, in ascending order."""
        wanted = set(filter(is_wanted, self.numbers))
        return [index for index, name in self.places[task].items() if self.states[name] in wanted] if wanted else []


def _states(names: Iterable[str], pods: Mapping[str, Pod], place: str) -> dict[str, PodState]:
    task_spec, job_version, out_of_sync = keys.TASK_SPEC, keys.JOB_VERSION, keys.OUT_OF_SYNC
    known: dict[tuple[object, ...], PodState] = {}
    states: dict[str, PodState] = {}
    for name in names:
        pod = pods[name]
        meta, phase, notes = pod.metadata, pod.status.phase, pod.metadata.annotations
        turned_away = phase is PodPhase.FAILED and is_turned_away(pod)
        alike = (
            notes.get(task_spec),
            notes.get(job_version),
            phase,
            meta.deletion_timestamp is None,
            out_of_sync in notes,
            turned_away,
        )
        state = known.get(alike)
        if state is None:
            version, shown = (-1, PodPhase.PENDING) if turned_away else (version_of(pod), phase)
            state = known[alike] = PodState(task_of(pod), version, shown, meta.is_terminating, is_marked(pod), place)
        states[name] = state
    return states
