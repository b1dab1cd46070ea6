"""The difference between the desired pods of a Job and its pods: which are missing, surplus or stale.

A pod is missing only when the tasks that its task depends on are up.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import Final

from pyroclast.api.enums import Iteration, JobEventReason, PodPhase
from pyroclast.api.records import DependsOn, Job, JobSpec, Pod, Task
from pyroclast.lifecycle.effects import CreatePods, DeletePods, Effect, Notice, Slot, Victim, warning
from pyroclast.lifecycle.gang import members
from pyroclast.lifecycle.gang.members import ObservedPods, PodState, min_available, needed_pods
from pyroclast.resources.indexes import union

_ANY = frozenset({Iteration.ANY.value, "IterationAny"})  # the second spelling is the design document's


MOST_IN_ORDER: Final = 64
"""The most pods that are deleted one after the other before the controller decides anew, since the scale may have changed."""


MOST_CREATED: Final = 1024
"""The most slots in one plan. A user may ask for two billion pods; the plan, and all that follows from it, stays small."""


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
    """Slots of the pods to create next, without pods whose dependencies are not up. At most `MOST_CREATED`."""
    surplus: tuple[Pod, ...] = ()
    """Pods beyond the replicas, the highest index first."""
    stale: tuple[Pod, ...] = ()
    """Unfinished pods of an older version, and pods that the controller has marked for deletion."""
    elastic: int = 0
    """How many slots at the end of `missing` the gang does not need."""

    def effects(self) -> Iterator[Effect]:
        """Yield the changes of this plan as effects: deletions first, then creations."""
        if self.stale:
            yield DeletePods(victims_of(self.stale), notices=tuple(_rejections(self.stale)))
        if self.surplus:
            yield DeletePods(victims_of(self.surplus[:MOST_IN_ORDER]), in_order=True)
        if self.missing:
            yield CreatePods(self.missing, self.elastic)


def plan(job: Job, pods: ObservedPods) -> GangPlan:
    """Return the plan for the tasks of `job`. Pods of tasks that the spec does not name are left alone."""

    def is_stale(state: PodState) -> bool:
        return state.is_marked or (state.version < job.status.version and not state.is_finished)

    surplus = pods.where(lambda state: not state.is_terminating and not state.place and state.task in pods.replicas)
    stale = pods.where(lambda state: not state.is_terminating and bool(state.place) and is_stale(state))
    missing = tuple(islice(_missing(job, pods), MOST_CREATED))
    present = sum(number for state, number in pods.numbers.items() if state.place and not state.is_terminating)
    present += sum(map(len, pods.gone.values())) + sum(pods.filled(task) - len(pods.places[task]) for task in pods.progress)
    needed = max(0, min_available(job.spec) - present)
    from_the_top = sorted(surplus, key=lambda pod: (-members.index_of(pod), members.task_of(pod)))
    return GangPlan(missing, tuple(from_the_top), stale, elastic=max(0, len(missing) - needed))


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


def _rejections(pods: Iterable[Pod]) -> Iterator[Notice]:
    for pod in filter(members.is_turned_away, pods):
        what = f"Node {pod.spec.node_name} rejected pod {pod.metadata.name}{members.failure(pod)}"
        text = f"{what}. It is created again and the scheduler binds it; this does not count as a retry"
        yield warning(JobEventReason.POD_REJECTED, text)


def _missing(job: Job, pods: ObservedPods) -> Iterator[Slot]:
    """Yield the slots without a pod: first those below the `minAvailable` of their task, then the others."""
    short = [task for task in job.spec.tasks if pods.filled(task.name) < task.replicas]
    startable = [task for task in short if may_start(job, task, pods)]
    of_arrays = {task.name: _of_array(task, pods) for task in startable if task.name in pods.progress}
    for task in startable:
        first = of_arrays.get(task.name)
        yield from (
            _absent(task, range(min(needed_pods(task), task.replicas)), pods)
            if first is None
            else islice(first, max(0, needed_pods(task) - pods.filled(task.name)))
        )
    for task in startable:
        rest = of_arrays.get(task.name)
        yield from _absent(task, range(max(0, needed_pods(task)), task.replicas), pods) if rest is None else rest


def _of_array(task: Task, pods: ObservedPods) -> Iterator[Slot]:
    missing = pods.progress[task.name].missing(pods.places[task.name], pods.living(task.name))
    return (Slot(task.name, index) for index in missing)


def _absent(task: Task, indexes: range, pods: ObservedPods) -> Iterator[Slot]:
    there, gone = pods.places[task.name], pods.gone.get(task.name, ())
    return (Slot(task.name, index) for index in indexes if index not in there and index not in gone)


def may_start(job: Job, task: Task, pods: ObservedPods) -> bool:
    """Whether the tasks that `task` depends on are up.

    With one name in `dependsOn`, `any` and `all` mean the same. A name without a task is never up.
    """
    if task.depends_on is None:
        return True
    ready = [_is_ready(job, name, pods) for name in task.depends_on.name]
    return any(ready) if len(ready) > 1 and _wants_any(task.depends_on) else all(ready)


def cut_off(job: Job, pods: ObservedPods) -> dict[str, str]:
    """Return the tasks that lack pods which can never be created, each with the reason; empty when all pods can be created.

    A failed pod is not up again without a restart. So a task with too few other pods, existing or creatable, never is up, and
    neither is a task whose own pods can never be created.
    """
    if not any(task.depends_on and pods.filled(task.name) < task.replicas for task in job.spec.tasks):
        return {}
    failed = dict(Counter({state.place: number for state, number in pods.numbers.items() if _stays_failed(state)}))
    failed |= {name: found.count(union(found.failed, found.cancelled)) for name, found in pods.progress.items()}
    tasks = {task.name: task for task in job.spec.tasks}
    waits = {name: task.depends_on for name, task in tasks.items() if task.depends_on and pods.filled(name) < task.replicas}
    waits = {name: dependency for name, dependency in waits.items() if dependency.name and not may_start(job, tasks[name], pods)}
    dependents: dict[str, list[str]] = {}
    for name, dependency in waits.items():
        for target in dependency.name:
            dependents.setdefault(target, []).append(name)
    reasons: dict[str, str] = {}
    queue = deque(waits)
    while queue:  # a task is looked at again when a task that it waits for is cut off
        name = queue.popleft()
        if name in reasons:
            continue
        why = [_never_up(tasks.get(target), target, pods, failed, reasons) for target in waits[name].name]
        if (all if _wants_any(waits[name]) else any)(why):
            reasons[name] = f"task {name} can never start: {next(filter(None, why))}"
            queue.extend(dependents.get(name, ()))
    return reasons


def _stays_failed(state: PodState) -> bool:
    return state.phase is PodPhase.FAILED and not (state.is_terminating or state.is_marked) and bool(state.place)


def _never_up(task: Task | None, name: str, pods: ObservedPods, failed: Mapping[str, int], reasons: Mapping[str, str]) -> str:
    """Return why `task`, named `name`, can never be up; empty when it can."""
    if task is None:
        return f"there is no task {name}"
    possible = (pods.filled(name) if name in reasons else task.replicas) - failed.get(name, 0)
    if possible >= needed_pods(task):
        return ""
    return f"of task {name}, {needed_pods(task)} must be up, and {possible} of {task.replicas} still can be"


def can_create(job: Job, pods: ObservedPods) -> bool:
    """Whether a pod is missing that may be created now."""
    return next(_missing(job, pods), None) is not None


def deadlock(spec: JobSpec) -> str:
    """Return why the gang can never be complete, as a needed task depends on one that starts with the gang; empty if it can."""
    waits = [task for task in spec.tasks if task.depends_on is not None and task.depends_on.name and task.replicas]
    if not waits:
        return ""
    first = sum(task.replicas for task in spec.tasks) - sum(task.replicas for task in waits)
    needed, blocked = min_available(spec), waits[0]
    if first >= needed or blocked.depends_on is None:
        return ""
    targets = f"{'any of ' if _wants_any(blocked.depends_on) else ''}{', '.join(blocked.depends_on.name)}"
    return (
        f"never: task {blocked.name} waits for {targets}, which starts only when {needed} pods are there; "
        f"without dependsOn {first} {'is' if first == 1 else 'are'} made"
    )


def _wants_any(dependency: DependsOn) -> bool:
    return dependency.iteration in _ANY


def _is_ready(job: Job, name: str, pods: ObservedPods) -> bool:
    task = next((task for task in job.spec.tasks if task.name == name), None)
    if task is None:
        return False
    up = sum(_is_up(pods.by_name[pod]) for pod in pods.places[name].values())
    if (progress := pods.progress.get(name)) is not None:  # their pods may be gone
        up = progress.count(progress.completed) + sum(
            _is_up(pods.by_name[pod]) for pod in pods.places[name].values() if not members.is_finished(pods.by_name[pod])
        )
    return up + len(pods.gone.get(name, ())) >= needed_pods(task)


def _is_up(pod: Pod) -> bool:
    if pod.status.phase is PodPhase.SUCCEEDED:
        return True
    return pod.status.phase is PodPhase.RUNNING and all(status.ready for status in pod.status.container_statuses)
