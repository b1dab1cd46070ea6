"""Counting: how many pods of a Job are in which phase."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pyroclast.api import keys
from pyroclast.api.enums import PodPhase
from pyroclast.api.records import Pod

__all__ = ["Counts", "count"]


@dataclass(frozen=True, slots=True)
class Counts:
    """Pods of a Job by phase. A pod that has been asked to go counts as terminating and as nothing else."""

    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    unknown: int = 0
    terminating: int = 0
    by_task: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Task to phase to number, without what is terminating; only numbers above zero."""

    @property
    def has_living(self) -> bool:
        """Whether a pod still has to go before the Job is at rest."""
        return self.pending + self.running + self.unknown + self.terminating > 0


def count(pods: Iterable[Pod], *, releasing: Iterable[Pod] = ()) -> Counts:
    """`pods`, counted. Those of `releasing` are about to be deleted, and count as if they were."""
    totals = dict.fromkeys(PodPhase, 0)
    doomed = {pod.metadata.uid for pod in releasing}
    terminating = 0
    by_task: dict[str, dict[str, int]] = {}
    for pod in pods:
        if pod.metadata.is_terminating or pod.metadata.uid in doomed:
            terminating += 1
            continue
        phase = pod.status.phase
        totals[phase] += 1
        task = pod.metadata.annotations.get(keys.TASK_SPEC)
        if task is not None:
            phases = by_task.setdefault(task, {})
            phases[phase.value] = phases.get(phase.value, 0) + 1
    return Counts(
        totals[PodPhase.PENDING],
        totals[PodPhase.RUNNING],
        totals[PodPhase.SUCCEEDED],
        totals[PodPhase.FAILED],
        totals[PodPhase.UNKNOWN],
        terminating,
        by_task,
    )
