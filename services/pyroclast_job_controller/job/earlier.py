"""The earlier Jobs of `spec.after` in the caches: their states for a decision, and which waiting Jobs a change concerns.

Indexes lead from a waiting Job to the Jobs that it means, and back. So no change and no decision iterates over all Jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from pyroclast.api.enums import AfterKind
from pyroclast.api.records import After, AfterJob, BatchJob, Job
from pyroclast.api.types import Key
from pyroclast.kube.watch.informer import Informer
from pyroclast.kube.workqueue.sharded_queue import ShardedQueue
from pyroclast.lifecycle.job import after
from pyroclast.resources import selectors
from pyroclast_job_controller.caches import AWAITED, LABEL, Caches, label_key

_MOST_DEPARTED: Final = 10_000


def states(caches: Caches, job: Job) -> tuple[tuple[AfterJob, ...] | None, ...]:
    """Return the states of the existing earlier Jobs of each entry; None while the kind has not been listed."""
    return tuple(
        None
        if entry.kind is AfterKind.BATCH_JOB and not caches.batch_jobs.has_synced
        else tuple(after.state_of(each, entry) for each in _existing(caches, job, entry))
        for entry in job.spec.after
    )


def jobs_of(caches: Caches, job: Job) -> Iterator[Job]:
    """Yield the existing Jobs after which `job` runs, without native Jobs, which wait for no Job."""
    for entry in job.spec.after:
        yield from (each for each in _existing(caches, job, entry) if isinstance(each, Job))


def _existing(caches: Caches, job: Job, entry: After) -> Iterator[Job | BatchJob]:
    namespace, is_native = job.metadata.namespace, entry.kind is AfterKind.BATCH_JOB
    if entry.selector is None:
        key = Key(namespace, entry.job)
        found = caches.batch_jobs.get(key) if is_native else caches.jobs.get(key)
        yield from () if found is None else (found,)
        return
    value = label_key(namespace, entry.selector.get("matchLabels") or {})
    known: Iterable[Job | BatchJob] = (caches.batch_jobs if is_native else caches.jobs.informer).by_index(LABEL, value)
    for each in known:
        if each.metadata.uid != job.metadata.uid and selectors.matches(entry.selector, each.metadata.labels):
            yield each


class EarlierJobs:
    """Queues the Jobs that wait for a changed Job, and remembers how deleted Jobs had ended.

    `start`: begins to watch native Jobs, which happens when the first Job waits for one.
    """

    def __init__(self, caches: Caches, queue: ShardedQueue[Key], start: Callable[[Informer[Any]], object]) -> None:
        self._caches, self._queue, self._start = caches, queue, start
        self._is_watched = False
        caches.batch_jobs.on_change(lambda old, new: self.changed(AfterKind.BATCH_JOB, old, new))

    def changed(self, kind: AfterKind, old: Job | BatchJob | None, new: Job | BatchJob | None) -> None:
        """Queue the Jobs that wait for the changed Job, if its phase or its labels changed."""
        earlier = new or old
        if earlier is None:
            return
        if isinstance(new, Job) and not self._is_watched and any(each.kind is AfterKind.BATCH_JOB for each in new.spec.after):
            self._is_watched = True
            if self._caches.batch_jobs not in self._caches.optional:
                self._start(self._caches.batch_jobs)
        if old is not None and new is not None and _facts(old) == _facts(new):
            return
        waiting = list(waiting_for(self._caches, kind, earlier))
        if new is None and waiting:
            self._caches.departed[earlier.metadata.uid] = after.phase_of(earlier)
            while len(self._caches.departed) > _MOST_DEPARTED:
                del self._caches.departed[next(iter(self._caches.departed))]
        for job in waiting:
            self._queue.add(job.key)


def waiting_for(caches: Caches, kind: AfterKind, earlier: Job | BatchJob) -> Iterator[Job]:
    """Yield the Jobs that wait for `earlier`."""
    namespace, informer = earlier.metadata.namespace, caches.jobs.informer
    yield from informer.by_index(AWAITED, after.key_of(kind, namespace, earlier.metadata.name))
    for job in informer.by_index(AWAITED, after.key_of(kind, namespace, "")):
        if after.selects(job, kind, earlier.metadata.labels):
            yield job


def _facts(job: Job | BatchJob) -> tuple[object, ...]:
    arrays = job.status.arrays if isinstance(job, Job) else {}
    return job.metadata.uid, after.phase_of(job), job.metadata.labels, arrays
