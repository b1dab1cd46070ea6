"""The difference between the desired pods of a Job and its pods: which are missing, surplus or stale."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from pyroclast.api.records import Job, Pod, Task
from pyroclast.lifecycle.effects import CreatePods, DeletePods, Effect, Slot, Victim
from pyroclast.lifecycle.gang import dependencies, members

__all__ = ["MOST_IN_ORDER", "GangPlan", "Keep", "interrupted", "plan", "release", "victims_of"]


MOST_IN_ORDER: Final = 64
"""The most pods that are deleted one after the other before the controller decides about the Job anew, since its scale may have
changed.
"""


class Keep(Enum):
    """Which pods are kept when a policy kills pods."""

    NONE = "none"
    FINISHED = "finished"
    """Pods that succeeded or failed, for inspection."""
    OTHERS = "others"
    """All pods except the target of the policy."""


@dataclass(frozen=True, slots=True)
class GangPlan:
    """The changes that make the pods match the spec."""

    missing: tuple[Slot, ...] = ()
    """Slots of the pods to create, without pods whose dependencies are not up."""
    surplus: tuple[Pod, ...] = ()
    """Pods beyond the replicas, the highest index first."""
    stale: tuple[Pod, ...] = ()
    """Unfinished pods of an older version, and pods that the controller has marked for deletion."""

    def effects(self) -> Iterator[Effect]:
        """Yield the plan as effects: deletions first, then creations."""
        if self.stale:
            yield DeletePods(victims_of(self.stale))
        if self.surplus:
            yield DeletePods(victims_of(self.surplus[:MOST_IN_ORDER]), in_order=True)
        if self.missing:
            yield CreatePods(self.missing)


def plan(job: Job, pods: Mapping[str, Pod]) -> GangPlan:
    """Return the plan for the tasks of `job`. Pods of tasks that the spec does not name are left alone."""
    expected = {name for task in job.spec.tasks for name in members.pod_names(job.metadata.name, task.name, task.replicas)}
    tasks = {task.name for task in job.spec.tasks}
    living = {name: pod for name, pod in pods.items() if not pod.metadata.is_terminating}
    surplus = [pod for name, pod in living.items() if name not in expected and members.task_of(pod) in tasks]
    stale = [pod for name, pod in living.items() if name in expected and _is_stale(job, pod)]
    missing = [slot for task in job.spec.tasks for slot in _missing(job, task, pods)]
    return GangPlan(tuple(missing), tuple(sorted(surplus, key=_from_the_top)), tuple(stale))


def release(pods: Mapping[str, Pod], keep: Keep, *, older_than: int | None = None) -> tuple[Pod, ...]:
    """Return the pods that a kill deletes: all pods except those that `keep` spares and those already being deleted.

    `older_than`: delete only pods of a lower version; None: pods of every version.
    """
    return tuple(
        pod
        for pod in pods.values()
        if not pod.metadata.is_terminating
        and not (keep is Keep.FINISHED and members.is_finished(pod))
        and (older_than is None or members.version_of(pod) < older_than)
    )


def interrupted(job: Job, pods: Mapping[str, Pod]) -> tuple[Pod, ...]:
    """Return the pods within the replicas that are marked but not yet deleted.

    The controller had begun to restart these pods, and must now finish the restart.
    """
    names = (name for task in job.spec.tasks for name in members.pod_names(job.metadata.name, task.name, task.replicas))
    found = (pods.get(name) for name in names)
    return tuple(pod for pod in found if pod and members.is_marked(pod) and not pod.metadata.is_terminating)


def victims_of(pods: tuple[Pod, ...] | list[Pod]) -> tuple[Victim, ...]:
    """Return `pods` as victims, the form in which effects name the pods to delete."""
    return tuple(Victim(pod.metadata.name, pod.metadata.uid) for pod in pods)


def _missing(job: Job, task: Task, pods: Mapping[str, Pod]) -> Iterator[Slot]:
    names = members.pod_names(job.metadata.name, task.name, task.replicas)
    absent = [index for index, name in enumerate(names) if name not in pods]
    if absent and dependencies.may_start(job, task, pods):
        yield from (Slot(task.name, index) for index in absent)


def _is_stale(job: Job, pod: Pod) -> bool:
    return members.is_marked(pod) or (members.version_of(pod) < job.status.version and not members.is_finished(pod))


def _from_the_top(pod: Pod) -> tuple[int, str]:
    return -members.index_of(pod), members.task_of(pod)
