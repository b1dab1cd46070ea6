"""Start order of the tasks of a Job: whether the tasks that a task depends on are up."""

from __future__ import annotations

from pyroclast.api.enums import Iteration, PodPhase
from pyroclast.api.records import DependsOn, Job, JobSpec, Pod, Task
from pyroclast.lifecycle.gang.observed_pods import ObservedPods
from pyroclast.lifecycle.gang.size import min_available, needed_pods

_ANY = frozenset({Iteration.ANY.value, "IterationAny"})  # the second spelling is the design document's


def may_start(job: Job, task: Task, pods: ObservedPods) -> bool:
    """Whether the tasks that `task` depends on are up.

    With one name in `dependsOn`, `any` and `all` mean the same. A name without a task is never up.
    """
    if task.depends_on is None:
        return True
    ready = [_is_ready(job, name, pods) for name in task.depends_on.name]
    return any(ready) if len(ready) > 1 and _wants_any(task.depends_on) else all(ready)


def deadlock(spec: JobSpec) -> str:
    """Return why the gang can never be complete: a needed task depends on a task that only starts with the gang.

    Empty if it can.
    """
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
    return sum(_is_up(pods.by_name[pod]) for pod in pods.places[name].values()) >= needed_pods(task)


def _is_up(pod: Pod) -> bool:
    if pod.status.phase is PodPhase.SUCCEEDED:
        return True
    return pod.status.phase is PodPhase.RUNNING and all(status.ready for status in pod.status.container_statuses)
