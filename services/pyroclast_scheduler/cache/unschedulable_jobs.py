"""Jobs that no session could place, with an index from each trigger to its jobs. A job costs nothing until a trigger fires."""

from __future__ import annotations

from collections.abc import Collection, ItemsView, KeysView, Sequence
from itertools import islice
from typing import Any, TypeAlias, TypeVar

from pyroclast_scheduler.cache.wait_queue import WaitQueue
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.triggers import Pause, Trigger, UnschedulableJob

JobOrClass: TypeAlias = "str | bytes"
"""A job by its key, or all unschedulable jobs of one equivalence class by its digest."""

T = TypeVar("T")


class UnschedulableJobs:
    """The unschedulable jobs by key. The last result for one job applies to all jobs of its kind.

    Jobs that a trigger finds stay in the index until they are discarded.
    """

    def __init__(self) -> None:
        self._jobs: dict[str, UnschedulableJob] = {}
        self._queues: dict[bytes, WaitQueue] = {}
        self._latest: dict[JobOrClass, UnschedulableJob] = {}
        self._index: dict[type[Any], dict[Any, dict[JobOrClass, None]]] = {}
        self._period = 0

    def __len__(self) -> int:
        return len(self._jobs)

    def add(self, job: UnschedulableJob) -> Collection[str]:
        """Add a job. Return the other jobs of its kind if these have another reason."""
        key, who = job.facts.key, job.facts.key if job.kind is None else job.kind
        self.discard(key)
        self._jobs[key] = job
        said = self._latest.get(who)
        if said is not None:
            self._forget(who, said)
        self._keep(who, job)
        if job.kind is None:
            return ()
        queue = self._queues.setdefault(job.kind, WaitQueue())
        others = () if said is None or said.reason == job.reason else queue.members
        queue.add(job.facts)
        return others

    def discard(self, key: str) -> None:
        """Remove a job that is no longer unschedulable."""
        job = self._jobs.pop(key, None)
        if job is None:
            return
        if job.kind is None:
            self._forget(key, job)
            return
        queue = self._queues[job.kind]
        queue.discard(key)
        if not len(queue):
            del self._queues[job.kind]
            self._forget(job.kind, self._latest[job.kind])

    @property
    def jobs(self) -> Sequence[str]:
        """The keys of all unschedulable jobs."""
        return list(self._jobs)

    @property
    def all(self) -> KeysView[JobOrClass]:
        """The keys of all unschedulable jobs without a kind, and all kinds of unschedulable jobs."""
        return self._latest.keys()

    def of(self, trigger: Trigger) -> Collection[JobOrClass]:
        """Return the unschedulable jobs and kinds that are tried again when `trigger` fires."""
        return self._index.get(type(trigger), {}).get(trigger, ())

    def by(self, sort: type[T]) -> ItemsView[T, Collection[JobOrClass]]:
        """Return the triggers of the type `sort`, each with the jobs and kinds that are tried again when the trigger fires."""
        return self._index.get(sort, {}).items()

    def due(self) -> Sequence[JobOrClass]:
        """Handle that a schedule period began. Return the jobs and kinds whose results time alone may have changed."""
        self._period += 1
        return [who for pause, whose in self.by(Pause) if self._period % pause.periods == 0 for who in whose]

    def line(self, kind: bytes) -> Sequence[JobFacts]:
        """Return the jobs of one kind, oldest first. Some of them may not be unschedulable any more."""
        queue = self._queues.get(kind)
        return () if queue is None else queue.order

    def oldest(self, parts: int) -> list[str]:
        """Return the keys of the jobs that have waited longest: the fraction 1/`parts` of all unschedulable jobs, rounded up."""
        return list(islice(self._jobs, -(-len(self._jobs) // parts)))

    def _keep(self, who: JobOrClass, job: UnschedulableJob) -> None:
        self._latest[who] = job
        for trigger in job.triggers:
            self._index.setdefault(type(trigger), {}).setdefault(trigger, {})[who] = None

    def _forget(self, who: JobOrClass, job: UnschedulableJob) -> None:
        del self._latest[who]
        for trigger in job.triggers:
            triggers = self._index[type(trigger)]
            del triggers[trigger][who]
            if not triggers[trigger]:
                del triggers[trigger]
