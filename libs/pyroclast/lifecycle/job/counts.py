"""The number of pods of a Job in each phase."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field

from pyroclast.api.enums import PodPhase
from pyroclast.api.records import Pod
from pyroclast.lifecycle.gang.observed_pods import ObservedPods


@dataclass(frozen=True, slots=True)
class Counts:
    """The number of pods of a Job in each phase. A pod that is being deleted counts only as terminating."""

    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    unknown: int = 0
    terminating: int = 0
    by_task: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """The number of pods by task and phase. Terminating pods are left out, and so are numbers that are zero."""

    @property
    def has_living(self) -> bool:
        """Whether a pod is left that has not finished, or that is still being deleted."""
        return self.pending + self.running + self.unknown + self.terminating > 0


def count(pods: ObservedPods, *, tasks: Container[str] | None = None, releasing: Iterable[Pod] = ()) -> Counts:
    """Count `pods` by phase.

    `tasks`: count only the pods of these tasks; None for all pods. The controller is about to delete the pods of `releasing`,
    so these pods count as terminating.
    """
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
