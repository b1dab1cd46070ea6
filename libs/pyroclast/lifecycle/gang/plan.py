"""The difference between the desired pods of a Job and its pods: which are missing, surplus or stale."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from pyroclast.api.records import Job, Pod, Task
from pyroclast.lifecycle.effects import CreatePods, DeletePods, Effect, Slot, Victim
from pyroclast.lifecycle.gang import dependencies, members
from pyroclast.lifecycle.gang.observed_pods import ObservedPods, PodState

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
        """Yield the changes of this plan as effects: deletions first, then creations."""
        if self.stale:
            yield DeletePods(victims_of(self.stale))
        if self.surplus:
            yield DeletePods(victims_of(self.surplus[:MOST_IN_ORDER]), in_order=True)
        if self.missing:
            yield CreatePods(self.missing)


def plan(job: Job, pods: ObservedPods) -> GangPlan:
    """Return the plan for the tasks of `job`. Pods of tasks that the spec does not name are left alone."""
    surplus = pods.where(lambda state: not state.is_terminating and not state.place and state.task in pods.names)
    stale = pods.where(lambda state: not state.is_terminating and bool(state.place) and _is_stale(job, state))
    missing = [slot for task in job.spec.tasks for slot in _missing(job, task, pods)]
    return GangPlan(tuple(missing), tuple(sorted(surplus, key=_from_the_top)), stale)


def release(pods: ObservedPods, keep: Keep, *, older_than: int | None = None) -> tuple[Pod, ...]:
    """Return the pods that a kill deletes: all pods except those that `keep` spares and those already being deleted.

    `older_than`: delete only pods of a lower version; None for pods of every version.
    """
    return pods.where(
        lambda state: (
            not state.is_terminating
            and not (keep is Keep.FINISHED and state.is_finished)
            and (older_than is None or state.version < older_than)
        )
    )


def interrupted(pods: ObservedPods) -> tuple[Pod, ...]:
    """Return the pods within the replicas that are marked but not yet deleted.

    The controller had begun to restart these pods, and must now finish the restart.
    """
    return pods.where(lambda state: not state.is_terminating and bool(state.place) and state.is_marked)


def victims_of(pods: Iterable[Pod]) -> tuple[Victim, ...]:
    """Return `pods` as victims, the form in which effects name the pods to delete."""
    return tuple(Victim(pod.metadata.name, pod.metadata.uid) for pod in pods)


def _missing(job: Job, task: Task, pods: ObservedPods) -> Iterator[Slot]:
    absent = [index for index, name in enumerate(pods.names[task.name]) if name not in pods.states]
    if absent and dependencies.may_start(job, task, pods.by_name):
        yield from (Slot(task.name, index) for index in absent)


def _is_stale(job: Job, state: PodState) -> bool:
    return state.is_marked or (state.version < job.status.version and not state.is_finished)


def _from_the_top(pod: Pod) -> tuple[int, str]:
    return -members.index_of(pod), members.task_of(pod)
