"""Plugin conformance: pods of kube-system and pods with a system-critical PriorityClass are never evicted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.extension_points import Extensions
from pyroclast_scheduler.session.plugin_session import PluginSession

_CRITICAL: Final = frozenset({"system-cluster-critical", "system-node-critical"})


class Conformance:
    """The plugin conformance, which has no arguments."""

    def __init__(self, arguments: Arguments) -> None:
        del arguments

    def open(self, session: PluginSession) -> Extensions:
        """Return the extensions of this plugin for one session."""
        del session
        return Extensions(preemptable=_of_one, reclaimable=_of_one, unified_evictable=lambda _, candidates: _ordinary(candidates))


def _of_one(preemptor: Task, job: Job, candidates: Sequence[tuple[Job, Task]]) -> list[tuple[Job, Task]]:
    del preemptor, job
    return _ordinary(candidates)


def _ordinary(candidates: Sequence[tuple[Job, Task]]) -> list[tuple[Job, Task]]:
    return [
        (owner, task)
        for owner, task in candidates
        if task.facts.pod.spec.priority_class_name not in _CRITICAL and task.facts.namespace != "kube-system"
    ]
