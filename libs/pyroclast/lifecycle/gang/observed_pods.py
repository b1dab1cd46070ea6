"""An index of the pods of a Job, made once per reconciliation, so that no rule has to iterate over all pods again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from pyroclast.api import keys
from pyroclast.api.enums import PodPhase
from pyroclast.api.records import Job, Pod
from pyroclast.lifecycle.gang import members


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
    """The number of replicas of each task in the spec."""
    places: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    """The names of the existing pods of each task by index, in ascending order."""
    states: Mapping[str, PodState] = field(default_factory=dict)
    """The state of each pod by name, in the order of tasks and indexes; surplus pods are last."""
    numbers: Mapping[PodState, int] = field(default_factory=dict)
    """The number of pods in each state."""

    @classmethod
    def of(cls, job: Job, pods: Mapping[str, Pod]) -> ObservedPods:
        """Return the index of `pods`, the pods of `job` by name. The tasks of `job` must have names."""
        replicas = {task.name: task.replicas for task in job.spec.tasks}
        found: dict[str, list[tuple[int, str]]] = {task: [] for task in replicas}
        surplus: list[str] = []
        for name in pods:
            task, index = members.place_of(job.metadata.name, name)
            if 0 <= index < replicas.get(task, 0):
                found[task].append((index, name))
            else:
                surplus.append(name)
        places = {task: dict(sorted(row)) for task, row in found.items()}
        states: dict[str, PodState] = {}
        for task, names in places.items():
            states |= _states(names.values(), pods, task)
        states |= _states(surplus, pods, "")
        return cls(dict(pods), replicas, places, states, Counter(states.values()))

    def where(self, is_wanted: Callable[[PodState], bool]) -> tuple[Pod, ...]:
        """Return the pods whose state satisfies `is_wanted`, in the order of tasks and indexes."""
        wanted = set(filter(is_wanted, self.numbers))
        return tuple(self.by_name[name] for name, state in self.states.items() if state in wanted) if wanted else ()

    def indexes(self, task: str, is_wanted: Callable[[PodState], bool]) -> list[int]:
        """Return the indexes of the pods of `task` whose state satisfies `is_wanted`, in ascending order."""
        wanted = set(filter(is_wanted, self.numbers))
        return [index for index, name in self.places[task].items() if self.states[name] in wanted] if wanted else []


def _states(names: Iterable[str], pods: Mapping[str, Pod], place: str) -> dict[str, PodState]:
    """Return the states of the pods with one of `names`. `place`: the task of these names."""
    task_spec, job_version, out_of_sync = keys.TASK_SPEC, keys.JOB_VERSION, keys.OUT_OF_SYNC
    known: dict[tuple[object, ...], PodState] = {}
    states: dict[str, PodState] = {}
    for name in names:
        pod = pods[name]
        meta, phase, notes = pod.metadata, pod.status.phase, pod.metadata.annotations
        alike = notes.get(task_spec), notes.get(job_version), phase, meta.deletion_timestamp is None, out_of_sync in notes
        state = known.get(alike)
        if state is None:
            state = known[alike] = PodState(
                members.task_of(pod),
                members.version_of(pod),
                phase,
                is_terminating=meta.is_terminating,
                is_marked=members.is_marked(pod),
                place=place,
            )
        states[name] = state
    return states
