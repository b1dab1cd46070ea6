"""The progress of a Job in words: what it waits for and why, what runs, how it ended. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyroclast.api import keys
from pyroclast.api.enums import JobPhase, PodGroupPhase
from pyroclast.api.records import Job, Pod, PodGroup

__all__ = ["FINISHED", "Progress", "progress"]

FINISHED = frozenset({JobPhase.COMPLETED, JobPhase.FAILED, JobPhase.TERMINATED, JobPhase.ABORTED})


@dataclass(frozen=True, slots=True)
class Progress:
    """One line about a Job. Two that are equal need not both be shown."""

    phase: str
    detail: str

    @property
    def is_finished(self) -> bool:
        """Whether the Job has ended, well or not."""
        return self.phase in FINISHED

    def __str__(self) -> str:
        return f"{self.phase:<11} {self.detail}".rstrip()


def progress(job: Job, group: PodGroup | None, pods: Sequence[Pod]) -> Progress:
    """What `job` does now, from its PodGroup (None: not made yet) and the pods that exist."""
    phase = job.status.state.phase or JobPhase.PENDING
    if phase in FINISHED:
        return Progress(phase, _outcome(job, pods))
    if phase == JobPhase.PENDING:
        return Progress(phase, _what_it_waits_for(job, group, pods))
    return Progress(phase, _tasks(pods))


def _outcome(job: Job, pods: Sequence[Pod]) -> str:
    reason = job.status.state.message or job.status.state.reason
    return " · ".join(part for part in (reason, _tasks(pods)) if part)


def _what_it_waits_for(job: Job, group: PodGroup | None, pods: Sequence[Pod]) -> str:
    if group is None:
        return "waits for its PodGroup"
    reason = _unschedulable(group)
    if group.status.phase in ("", PodGroupPhase.PENDING):
        return f"waits for queue {job.spec.queue or 'default'} to take it in" + (f": {reason}" if reason else "")
    if not pods:
        return "its pods are being created"
    waiting = sum(not pod.spec.node_name for pod in pods)
    if waiting:
        return f"{waiting} of {len(pods)} pods wait for nodes" + (f": {reason}" if reason else "")
    return f"pods are starting: {_tasks(pods)}"


def _unschedulable(group: PodGroup) -> str:
    for condition in reversed(group.status.conditions):
        if condition.type == "Unschedulable" and condition.status == "True":
            return condition.message
    return ""


def _tasks(pods: Iterable[Pod]) -> str:
    """`launcher 1 Running, worker 2 Running 1 Pending`: each task with how many pods are in which phase."""
    by_task: dict[str, Counter[str]] = {}
    for pod in pods:
        task = pod.metadata.annotations.get(keys.TASK_SPEC, "pods")
        by_task.setdefault(task, Counter())[pod.status.phase or "Pending"] += 1
    return ", ".join(
        f"{task} " + " ".join(f"{count} {phase}" for phase, count in sorted(phases.items()))
        for task, phases in sorted(by_task.items())
    )
