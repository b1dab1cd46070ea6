"""Pods as tasks, each counted on its node and in its job, and the port through which code besides the watches changes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyroclast.api import records
from pyroclast_scheduler.cache.assumptions import Assumptions
from pyroclast_scheduler.cache.changes import Changes, count_alike
from pyroclast_scheduler.cache.jobs import JobTable
from pyroclast_scheduler.cache.nodes import NodeTable
from pyroclast_scheduler.model.tasks import TaskFacts, TaskStatus


@dataclass(frozen=True, slots=True)
class TaskPort:
    """The operations on the tasks of the cache, which are by UID.

    `put`: sets a pod; returns whether that changed anything. `changed`: reports a change that a session should examine.
    `stale`: reports a change that may affect any job.
    """

    tasks: Mapping[str, TaskFacts]
    assumptions: Assumptions
    put: Callable[[records.Pod], bool]
    drop: Callable[[str], None]
    changed: Callable[[], None]
    stale: Callable[[], None]
    now: Callable[[], float]


_GONE = frozenset({TaskStatus.SUCCEEDED, TaskStatus.FAILED})


class TaskTable:
    """The tasks by UID. Each task is also added to the tables `nodes` and `jobs`."""

    def __init__(self, nodes: NodeTable, jobs: JobTable, changes: Changes) -> None:
        self._changes = changes
        self.by_uid: dict[str, TaskFacts] = {}
        self._nodes = nodes
        self._jobs = jobs

    def set(self, before: TaskFacts | None, task: TaskFacts) -> None:
        """Set `task`. `before`: its previous state, None if it is new."""
        self._changes.pod(before, task)
        if before is None or not count_alike(before, task):
            if before is not None:
                self._leave(before)
            if task.node and task.status not in _GONE:
                self._nodes.add(task)
        elif task.node and task.status not in _GONE:
            self._nodes.replace(before, task)
        self.by_uid[task.uid] = task
        if before is not None and before.job and task.job:
            self._jobs.replace(before, task)
        elif before is not None and before.job:
            self._jobs.remove(before)
        elif task.job:
            self._jobs.add(task)

    def drop(self, uid: str) -> None:
        """Remove a task, if it is known."""
        task = self.by_uid.pop(uid, None)
        if task is None:
            return
        self._changes.pod(task, None)
        self._leave(task)
        if task.job:
            self._jobs.remove(task)

    def _leave(self, task: TaskFacts) -> None:
        if task.node and task.status not in _GONE:
            self._changes.leaves(task)
            self._nodes.remove(task)
