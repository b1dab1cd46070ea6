"""Pods that no session places for some time, because the API server refused to bind pods of their PodGroup."""

from __future__ import annotations

from collections.abc import Iterable

from pyroclast_scheduler.model.statuses import TaskStatus
from pyroclast_scheduler.model.tasks import TaskFacts


class Holds:
    """The held pods. `held`: the job of each held pod, by UID.

    `refused`: the job of each pod without a node whose bind was refused.
    """

    def __init__(self) -> None:
        self.held: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        self._paused: set[str] = set()

    def refuse(self, task: TaskFacts) -> None:
        """Hold a pod whose bind was refused."""
        self.held[task.uid] = self.refused[task.uid] = task.job

    def seen(self, task: TaskFacts) -> None:
        """Update the holds by the state of a pod.

        A new pod of a paused job is held. A pod that has a node was bound in spite of an earlier refusal.
        """
        if task.node and task.status is not TaskStatus.BINDING:
            self.refused.pop(task.uid, None)
        elif task.status is TaskStatus.PENDING and task.job in self._paused:
            self.held[task.uid] = task.job

    def drop(self, uid: str) -> None:
        """Remove a deleted pod."""
        self.held.pop(uid, None)
        self.refused.pop(uid, None)

    def release(self, uid: str) -> str | None:
        """End the hold of a pod unless its job is paused. Return the job, None if nothing changed."""
        if self.held.get(uid) in self._paused:
            return None
        return self.held.pop(uid, None)

    def pause(self, job: str, tasks: Iterable[TaskFacts]) -> None:
        """Hold all pending pods of a job, later ones included, until `resume`. `tasks`: the present tasks of the job."""
        self._paused.add(job)
        for task in tasks:
            self.seen(task)

    def resume(self, job: str) -> None:
        """End the hold of all pods of a job, since the pause is over or a new PodGroup has the same name."""
        if job in self._paused:
            self._paused.discard(job)
            for uid in [uid for uid, each in self.held.items() if each == job]:
                del self.held[uid]
