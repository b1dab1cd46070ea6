"""Minimum run time: a pod that got its place a moment ago is not evicted to make room for others.

The cluster's minimum is an argument of the action, a queue's an annotation, which holds for the queues below it too.
"""

from __future__ import annotations

from typing import Final

from pyroclast_scheduler.model.causes import Withheld
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.tasks import Task, placed_at
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.session import Session

__all__ = ["MinimumRunTime", "withheld_by_job"]

_ROOT: Final = "root"


def withheld_by_job(session: Session) -> dict[str, Withheld]:
    """By job, the pods that have not run for long enough to be evicted for it. One per session, see `Session.once`."""
    del session
    return {}


class MinimumRunTime:
    """What one action heeds. Its argument is `minimumRunTime` (0s: none), a queue's annotation overrules it."""

    def __init__(self, session: Session, arguments: Arguments) -> None:
        self._session = session
        self._withheld = session.once(withheld_by_job)
        self._default = arguments.seconds("minimumRunTime", "0s")
        self._by_queue: dict[str, float] = {}
        self._is_any = self._default > 0 or any(queue.facts.minimum_run_time for queue in session.queues.values())

    def protects(self, task: Task, owner: Job, job: Job) -> bool:
        """Whether `task` of `owner` must stay although `job` wants its place. If so, `job` waits for the time."""
        if not self._is_any:
            return False
        queue = owner.facts.queue
        minimum = self._of(queue)
        if minimum <= 0:
            return False
        placed = placed_at(task.facts)
        now = self._session.ports.now
        until = (now if placed is None else placed) + minimum
        if until <= now:
            return False
        known = self._withheld.get(job.facts.key)
        if known is None or until < known.until:
            pods = set() if known is None else known.pods
            known = self._withheld[job.facts.key] = Withheld(queue, minimum, until, pods)
        known.pods.add(task.uid)
        return True

    def _of(self, queue: str) -> float:
        """The minimum for pods of `queue`: its own, else that of the nearest queue above it, else the cluster's."""
        found = self._by_queue.get(queue)
        if found is None:
            name, seen = queue, set[str]()
            while name in self._session.queues and name not in seen and found is None:
                seen.add(name)
                facts = self._session.queues[name].facts
                found, name = facts.minimum_run_time, facts.parent or _ROOT
            found = self._by_queue[queue] = self._default if found is None else found
        return found
