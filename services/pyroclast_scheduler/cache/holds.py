"""Pods that no session places for a while, because the API server refused to bind pods of their PodGroup."""

from __future__ import annotations

from collections.abc import Iterable

from pyroclast_scheduler.model.statuses import TaskStatus
from pyroclast_scheduler.model.tasks import TaskFacts

__all__ = ["Holds"]


class Holds:
    """`held`: by UID, the job of each pod that is held. `refused`: of those without a node whose bind was refused."""

    def __init__(self) -> None:
        self.held: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        self._paused: set[str] = set()

    def refuse(self, task: TaskFacts) -> None:
        """A bind of the pod was refused: hold it."""
        self.held[task.uid] = self.refused[task.uid] = task.job

    def seen(self, task: TaskFacts) -> None:
        """The pod is as `task` says: one of a paused job is held from its first moment, one with a node was bound after all."""
        if task.node and task.status is not TaskStatus.BINDING:
            self.refused.pop(task.uid, None)
        elif task.status is TaskStatus.PENDING and task.job in self._paused:
            self.held[task.uid] = task.job

    def drop(self, uid: str) -> None:
        """The pod is gone."""
        self.held.pop(uid, None)
        self.refused.pop(uid, None)

    def release(self, uid: str) -> str | None:
        """Hold the pod no longer, unless its whole job is paused; the job, None if nothing changes."""
        if self.held.get(uid) in self._paused:
            return None
        return self.held.pop(uid, None)

    def pause(self, job: str, tasks: Iterable[TaskFacts]) -> None:
        """Hold all pods of a job that wait, and those that come, until `resume`. `tasks`: those that it has."""
        self._paused.add(job)
        for task in tasks:
            self.seen(task)

    def resume(self, job: str) -> None:
        """Hold no pods of a job any longer: the pause is over, or another PodGroup has its name, which was refused nothing."""
        if job in self._paused:
            self._paused.discard(job)
            for uid in [uid for uid, each in self.held.items() if each == job]:
                del self.held[uid]
