"""The pods of a Job as one look finds them, sorted by what decisions ask of them: no rule has to go through all of them again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from pyroclast.api import keys
from pyroclast.api.enums import PodPhase
from pyroclast.api.records import Job, Pod
from pyroclast.lifecycle.gang import members

__all__ = ["ObservedPods", "PodState"]


@dataclass(frozen=True, slots=True, eq=False)
class PodState:
    """What decisions ask of a pod. Pods that one look finds alike in all of it share one state, which is compared by identity."""

    task: str
    """The task that the pod says it belongs to; empty when it does not say."""
    version: int
    """The version of the Job at which it was made; -1, older than any, when it does not say."""
    phase: PodPhase
    is_terminating: bool
    is_marked: bool
    """The controller is going to delete it itself."""
    place: str
    """The task for which the spec of the Job asks for a pod of this name; empty: none, so it is one too many."""

    @property
    def is_finished(self) -> bool:
        """Whether it has succeeded or failed."""
        return self.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)

    def is_current(self, version: int) -> bool:
        """Whether it belongs to the Job at `version`: it is not older, and not about to be replaced."""
        return self.version >= version and not self.is_marked


@dataclass(frozen=True, slots=True)
class ObservedPods:
    """The pods that a Job controls."""

    by_name: Mapping[str, Pod] = field(default_factory=dict)
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The names that the pods of each task should have, by index."""
    states: Mapping[str, PodState] = field(default_factory=dict)
    """The state of each pod, by name: in the order of tasks and indexes, pods without a place last."""
    numbers: Mapping[PodState, int] = field(default_factory=dict)
    """How many pods are in each state."""

    @classmethod
    def of(cls, job: Job, pods: Mapping[str, Pod]) -> ObservedPods:
        """Those of `job`, whose tasks have names, from its `pods` by name."""
        names = {task.name: members.pod_names(job.metadata.name, task.name, task.replicas) for task in job.spec.tasks}
        states: dict[str, PodState] = {}
        for task, places in names.items():
            states |= _states(places, pods, task)
        if len(states) < len(pods):
            states |= _states([name for name in pods if name not in states], pods, "")
        return cls(dict(pods), names, states, Counter(states.values()))

    def where(self, is_wanted: Callable[[PodState], bool]) -> tuple[Pod, ...]:
        """The pods whose state `is_wanted`, in the order of tasks and indexes."""
        wanted = set(filter(is_wanted, self.numbers))
        return tuple(self.by_name[name] for name, state in self.states.items() if state in wanted) if wanted else ()

    def indexes(self, task: str, is_wanted: Callable[[PodState], bool]) -> list[int]:
        """The places of `task` whose pod is in a state that `is_wanted`, in ascending order."""
        wanted = set(filter(is_wanted, self.numbers))
        return [index for index, name in enumerate(self.names[task]) if self.states.get(name) in wanted] if wanted else []


def _states(names: Iterable[str], pods: Mapping[str, Pod], place: str) -> dict[str, PodState]:
    """The states of those of `pods` that have one of `names`, which are all for one `place`."""
    task_spec, job_version, out_of_sync = keys.TASK_SPEC, keys.JOB_VERSION, keys.OUT_OF_SYNC
    known: dict[tuple[object, ...], PodState] = {}
    states: dict[str, PodState] = {}
    for name in names:
        pod = pods.get(name)
        if pod is None:
            continue
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
