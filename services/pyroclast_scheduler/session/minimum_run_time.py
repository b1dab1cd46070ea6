"""Minimum run time: a pod that was placed recently is not evicted for other jobs.

The default is an argument of the action. An annotation of a queue overrides the default for the queue and its descendants.
"""

from __future__ import annotations

from pyroclast_scheduler.model.causes import Withheld
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.queues import lineage
from pyroclast_scheduler.model.tasks import Task, placed_at
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.session import Session


def withheld_by_job(session: Session) -> dict[str, Withheld]:
    """Return an empty mapping for `Session.once`: by job, the pods that have not run long enough to be evicted for the job."""
    del session
    return {}


class MinimumRunTime:
    """The minimum run times of one action: of the queue of a pod, else of the argument `minimumRunTime` (0s: none)."""

    def __init__(self, session: Session, arguments: Arguments) -> None:
        self._session = session
        self._withheld = session.once(withheld_by_job)
        self._default = arguments.seconds("minimumRunTime", "0s")
        self._by_queue: dict[str, float] = {}
        self._is_any = self._default > 0 or any(queue.facts.minimum_run_time for queue in session.queues.values())

    def protects(self, task: Task, owner: Job, job: Job) -> bool:
        """Whether `task` of `owner` may not be evicted for `job` yet. If so, `job` is recorded as waiting for that time."""
        if not self._is_any:
            return False
        queue = owner.facts.queue
        minimum = self._of(queue)
        if minimum <= 0:
            return False
        placed, now = placed_at(task.facts), self._session.ports.now
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
        """Return the minimum for pods of `queue`: that of the queue or its nearest ancestor, else the default of the action."""
        if queue not in self._by_queue:
            minimums = (facts.minimum_run_time for facts in lineage(queue, self._session.snapshot.queues))
            self._by_queue[queue] = next((each for each in minimums if each is not None), self._default)
        return self._by_queue[queue]
