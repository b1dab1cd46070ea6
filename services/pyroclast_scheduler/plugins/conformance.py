"""Plugin conformance: what keeps the cluster alive is never evicted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyroclast_scheduler.framework.arguments import Arguments
from pyroclast_scheduler.framework.jobs import Job, Task
from pyroclast_scheduler.framework.plugin import Hooks
from pyroclast_scheduler.framework.points import Point
from pyroclast_scheduler.framework.session import Session

__all__ = ["Conformance"]

_CRITICAL: Final = frozenset({"system-cluster-critical", "system-node-critical"})


class Conformance:
    """No arguments."""

    def __init__(self, arguments: Arguments) -> None:
        del arguments

    def open(self, session: Session) -> Hooks:
        """Register."""
        del session
        return {Point.PREEMPTABLE: _ordinary, Point.RECLAIMABLE: _ordinary}


def _ordinary(preemptor: Task, job: Job, candidates: Sequence[tuple[Job, Task]]) -> list[tuple[Job, Task]]:
    del preemptor, job
    return [
        (owner, task)
        for owner, task in candidates
        if task.facts.pod.spec.priority_class_name not in _CRITICAL and task.facts.namespace != "kube-system"
    ]
