"""Jobs that no session could place, and an index from each trigger to the jobs that it may help: they cost nothing until then."""

from __future__ import annotations

from collections.abc import Collection, ItemsView, KeysView, Sequence
from itertools import islice
from typing import Any, TypeAlias, TypeVar

from pyroclast_scheduler.cache.wait_queue import WaitQueue
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.retry_conditions import Pause, Trigger, UnschedulableJob

__all__ = ["JobOrClass", "UnschedulableJobs"]

JobOrClass: TypeAlias = "str | bytes"
"""A job by its key, or all unschedulable jobs of one equivalence class by its digest."""

T = TypeVar("T")


class UnschedulableJobs:
    """Unschedulable jobs by key. Those that are found stay until they are discarded, also while others are looked for.

    What was last found out of one holds for all of its kind.
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
        """Remember a job that waits for something. The others of its kind, if they say something else."""
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
        """The job is no longer unschedulable."""
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
        """All of them."""
        return self._latest.keys()

    def of(self, trigger: Trigger) -> Collection[JobOrClass]:
        """Those that wait for it."""
        return self._index.get(type(trigger), {}).get(trigger, ())

    def by(self, sort: type[T]) -> ItemsView[T, Collection[JobOrClass]]:
        """The triggers of one sort with those that wait for each."""
        return self._index.get(sort, {}).items()

    def due(self) -> Sequence[JobOrClass]:
        """A schedule period begins: those of which time alone may have changed what plugins say."""
        self._period += 1
        return [who for pause, whose in self.by(Pause) if self._period % pause.periods == 0 for who in whose]

    def line(self, kind: bytes) -> Sequence[JobFacts]:
        """Those of one kind, oldest first, among jobs that rested once."""
        queue = self._queues.get(kind)
        return () if queue is None else queue.order

    def oldest(self, parts: int) -> list[str]:
        """Those that have waited longest, one of so many, at least one where there are any."""
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
