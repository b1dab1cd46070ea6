"""Counting: how many pods of a Job are in which phase."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field

from pyroclast.api.enums import PodPhase
from pyroclast.api.records import Pod
from pyroclast.lifecycle.gang.observed_pods import ObservedPods

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


def count(pods: ObservedPods, *, tasks: Container[str] | None = None, releasing: Iterable[Pod] = ()) -> Counts:
    """`pods`, counted; `tasks`: only theirs. Those of `releasing` are about to be deleted, and count as if they were."""
    totals: defaultdict[PodPhase, int] = defaultdict(int)
    doomed = Counter(pods.states[pod.metadata.name] for pod in releasing)
    terminating = 0
    by_task: dict[str, dict[str, int]] = {}
    for state, number in pods.numbers.items():
        if tasks is not None and state.task not in tasks:
            continue
        staying = 0 if state.is_terminating else number - doomed[state]
        terminating += number - staying
        totals[state.phase] += staying
        if state.task and staying:
            phases = by_task.setdefault(state.task, {})
            phases[state.phase.value] = phases.get(state.phase.value, 0) + staying
    return Counts(
        totals[PodPhase.PENDING],
        totals[PodPhase.RUNNING],
        totals[PodPhase.SUCCEEDED],
        totals[PodPhase.FAILED],
        totals[PodPhase.UNKNOWN],
        terminating,
        by_task,
    )
