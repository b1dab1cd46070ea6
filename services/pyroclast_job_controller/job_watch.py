"""From what changes in the cluster to the Jobs that have to be looked at."""

from __future__ import annotations

from typing import Final

from pyroclast.api.enums import BusEvent, PodGroupPhase
from pyroclast.api.records import Job, PersistentVolumeClaim, Pod, PodGroup, Queue
from pyroclast.api.types import JOBS, Key
from pyroclast.kube.queue import WorkQueue
from pyroclast.lifecycle import members, occurrences
from pyroclast.lifecycle.occurrences import Occurrence
from pyroclast_job_controller.caches import CLAIM, QUEUE
from pyroclast_job_controller.memory import Memories
from pyroclast_job_controller.shared import Shared

__all__ = ["JobWatch"]

_SETTLING: Final = 0.02
"""Seconds in which the changes of a Job's pods are gathered before the Job is looked at."""


class JobWatch:
    """Puts the keys of Jobs on the queue, and remembers what will not be seen any more when the Job's turn comes."""

    def __init__(self, shared: Shared, queue: WorkQueue[Key], memories: Memories) -> None:
        self._caches, self._shards, self._metrics, self._now = shared.caches, shared.shards, shared.metrics, shared.now
        self._queue, self._memories = queue, memories
        caches = shared.caches
        caches.jobs.informer.on_change(self._job)
        caches.pods.informer.on_change(self._pod)
        caches.groups.informer.on_change(self._group)
        caches.queues.informer.on_change(self._queue_changed)
        caches.claims.informer.on_change(self._claim)

    def look_at_all(self) -> None:
        """Look at every Job that is for us: we have just become responsible."""
        for job in self._caches.jobs.informer.values():
            self._look(job.key)

    def _look(self, key: Key, *, after: float = 0.0) -> None:
        if self._shards.owns(key):
            self._queue.add_after(key, after)

    def _job(self, old: Job | None, new: Job | None) -> None:
        if new is not None:
            self._look(new.key)
        elif old is not None:
            self._memories.forget(old.key)
            self._metrics.job_deleted(old.key, old.spec.queue)

    def _pod(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        key = members.job_key(pod) if pod is not None else None
        if key is None:
            return
        if new is None and old is not None:
            self._remember_deletion(key, old)
        self._look(key, after=_SETTLING)

    def _remember_deletion(self, key: Key, pod: Pod) -> None:
        job, owner = self._caches.jobs.get(key), members.owner_of(pod)
        happened = occurrences.evicted(pod, self._now())
        if job and owner and owner.uid == job.metadata.uid and happened and self._shards.owns(key):
            self._memories.of(job).notice(happened)

    def _group(self, old: PodGroup | None, new: PodGroup | None) -> None:
        group = new or old
        owner = group.metadata.controller if group else None
        if group is None or owner is None or owner.kind != JOBS.kind:
            return
        key = Key(group.metadata.namespace, owner.name)
        if new and old and new.status.phase is PodGroupPhase.UNKNOWN and old.status.phase is not PodGroupPhase.UNKNOWN:
            job = self._caches.jobs.get(key)
            if job and job.metadata.uid == owner.uid and self._shards.owns(key):
                self._memories.of(job).notice(Occurrence(BusEvent.UNKNOWN, self._now(), job.status.version))
        self._look(key)

    def _queue_changed(self, old: Queue | None, new: Queue | None) -> None:
        if new is not None and (old is None or old.spec.extend_clusters != new.spec.extend_clusters):
            for job in self._caches.jobs.informer.by_index(QUEUE, new.metadata.name):
                self._look(job.key)

    def _claim(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        if old is None and new is not None:
            for job in self._caches.jobs.informer.by_index(CLAIM, str(new.key)):
                self._look(job.key)
