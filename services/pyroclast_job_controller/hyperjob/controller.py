"""Makes the Jobs of every HyperJob in their domains, and tells in its status how they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import structlog

from pyroclast.api import keys
from pyroclast.api.records import HyperJob, Job, Namespace
from pyroclast.api.types import HYPER_JOBS, JOBS, Key
from pyroclast.kube.basics.errors import AlreadyExists, ApiError, NotFound, is_transient
from pyroclast.kube.events.recorder import Reference
from pyroclast.kube.http.batches import at_once, slow_start
from pyroclast.kube.http.client import PatchKind
from pyroclast.kube.http.response_records import record_of
from pyroclast.kube.watch.informer import Informer
from pyroclast.kube.watch.own_writes import Recent
from pyroclast.kube.workqueue.pacing import Pace
from pyroclast.kube.workqueue.rejections import subjects_of
from pyroclast.kube.workqueue.sharded_queue import ShardedQueue
from pyroclast.lifecycle import hyperjob_sizes, hyperjobs
from pyroclast.lifecycle.hyperjobs import HyperJobPart, Problem
from pyroclast_job_controller.caches import HYPER_JOB
from pyroclast_job_controller.hyperjob.domains import Domain, NamespaceDomains
from pyroclast_job_controller.shared import Shared

__all__ = ["HyperJobController"]

log = structlog.get_logger()

_Patch: TypeAlias = dict[str, Any] | list[dict[str, Any]]

_DEBOUNCE: Final = 0.05
"""Seconds in which changes of its Jobs are gathered before a HyperJob is looked at."""

_AGAIN: Final = 60.0
"""Seconds until what could not be placed is tried again, if nothing tells sooner that it can."""


class HyperJobController:
    """Level-triggered: its Jobs bear its uid, wherever they are.

    Args:
        shared: what is watched, and the ways out.
        queue: keys of HyperJobs.
        domains: where Jobs can be made.
    """

    def __init__(self, shared: Shared, queue: ShardedQueue[Key], domains: NamespaceDomains) -> None:
        self._client, self._jobs, self._recorder = shared.client, shared.caches.jobs, shared.recorder
        self._shards, self._now, self._queue, self._domains = shared.shards, shared.now, queue, domains
        self._clock = shared.clock
        self._paces: dict[Key, Pace] = {}
        self._hyper_jobs = Recent(Informer(shared.client, HYPER_JOBS, HyperJob), shared.clock)
        self.about = subjects_of(self._hyper_jobs, HYPER_JOBS)
        shared.caches.watch(self._hyper_jobs.informer)
        self._hyper_jobs.informer.on_change(self._changed)
        self._jobs.informer.on_change(self._job)
        domains.namespaces.on_change(self._namespace)

    def enqueue_all(self) -> None:
        """Look at every HyperJob that is for us: we have just become responsible."""
        for hyper_job in self._hyper_jobs.informer.values():
            self._enqueue(hyper_job.key)

    async def reconcile(self, key: Key) -> None:
        """Make what is missing of the HyperJob of `key`, delete what is too much, and write how it is."""
        hyper_job = self._hyper_jobs.get(key)
        if hyper_job is None:
            return
        self._queue.caught_up(key)
        jobs = self._jobs_of(hyper_job)
        if hyper_job.metadata.is_terminating:
            await self._clean_up(hyper_job, jobs)
            return
        parts = hyperjobs.split(hyper_job)
        problem = parts if isinstance(parts, Problem) else None
        if not isinstance(parts, Problem):
            wanted = {part.name for part in parts}
            await self._delete_all(key, [job for name, job in jobs.items() if name not in wanted])
            missing = [part for part in parts if part.name not in jobs and not hyperjobs.has_ended(hyper_job, part.name)]
            hyper_job, problem = await self._place_all(hyper_job, missing)
            jobs = self._jobs_of(hyper_job)
        if problem is not None:
            self._recorder.event(Reference.of(hyper_job, HYPER_JOBS), "Warning", problem.reason, problem.message)
            self._queue.add_after(key, _AGAIN)
        await self._tell(hyper_job, jobs, problem)

    async def _tell(self, hyper_job: HyperJob, jobs: dict[str, Job], problem: Problem | None) -> None:
        """Write the status, if it has changed and its turn has come."""
        pace = self._paces.setdefault(hyper_job.key, Pace(self._clock))
        if pause := pace.wait():
            self._queue.add_after(hyper_job.key, pause)
            return
        patch = hyperjobs.status(hyper_job, jobs, problem, now=self._now())
        if not patch:
            return
        operations = hyperjob_sizes.operations(hyper_job, patch["status"])
        if operations is None:
            await self._patch(hyper_job, patch, subresource="status")
        else:
            await self._patch(hyper_job, operations, subresource="status", how=PatchKind.JSON)
        pace.written()

    async def _place_all(self, hyper_job: HyperJob, parts: Sequence[HyperJobPart]) -> tuple[HyperJob, Problem | None]:
        """Make the Jobs of `parts`; the HyperJob as it is then, and why the first of them that could not be made was not."""
        domains = {name: self._domains.find(hyper_job, name) for name in dict.fromkeys(part.domain for part in parts)}
        usable = [domain.namespace for domain in domains.values() if not isinstance(domain, Problem)]
        if (
            any(name != hyper_job.metadata.namespace for name in usable)
            and keys.HYPER_JOB_FINALIZER not in hyper_job.metadata.finalizers
        ):
            hyper_job = await self._hold(hyper_job, [*hyper_job.metadata.finalizers, keys.HYPER_JOB_FINALIZER])
        problems: dict[str, Problem] = {}

        async def place(part: HyperJobPart) -> None:
            domain = domains[part.domain]
            found = domain if isinstance(domain, Problem) else await self._place(hyper_job, part, domain)
            if found is not None:
                problems[part.name] = found
            self._queue.gets_on(hyper_job.key)

        errors = await slow_start(parts, place)
        if errors:
            raise errors[0]
        return hyper_job, next((problems[part.name] for part in parts if part.name in problems), None)

    async def _place(self, hyper_job: HyperJob, part: HyperJobPart, domain: Domain) -> Problem | None:
        """Make the Job of `part` in `domain`; why it could not be made."""
        body = hyperjobs.manifest(hyper_job, part, domain.namespace)
        try:
            job = record_of(await domain.client.create(JOBS, body), Job)
        except AlreadyExists:
            job = record_of(await domain.client.get(JOBS, Key(domain.namespace, part.name)), Job)
            if job.metadata.labels.get(keys.HYPER_JOB_UID) != hyper_job.metadata.uid:
                return Problem("JobNameTaken", f"Job {job.key} is there already and not of this HyperJob")
        except ApiError as error:
            if is_transient(error):
                raise
            return Problem("JobRefused", f"Job {domain.namespace}/{part.name}: {error.message}")
        else:
            log.info("hyperjob.placed", hyperjob=str(hyper_job.key), job=str(job.key))
        self._jobs.put(job)
        return None

    async def _clean_up(self, hyper_job: HyperJob, jobs: dict[str, Job]) -> None:
        """Delete the Jobs; the HyperJob itself may go when the last one has gone."""
        if keys.HYPER_JOB_FINALIZER not in hyper_job.metadata.finalizers:
            return
        await self._delete_all(hyper_job.key, list(jobs.values()))
        if not self._jobs.informer.by_index(HYPER_JOB, hyper_job.metadata.uid):
            await self._hold(hyper_job, [name for name in hyper_job.metadata.finalizers if name != keys.HYPER_JOB_FINALIZER])

    async def _delete_all(self, key: Key, jobs: Sequence[Job]) -> None:
        async def delete(job: Job) -> None:
            await self._delete(job)
            self._queue.gets_on(key)

        errors = await at_once(jobs, delete)
        if errors:
            raise errors[0]

    async def _delete(self, job: Job) -> None:
        if job.metadata.is_terminating:
            return
        try:
            await self._client.delete(JOBS, job.key, uid=job.metadata.uid, propagation="Background")
        except NotFound:
            log.debug("hyperjob.job_gone", job=str(job.key))
        self._jobs.gone(job.key, job.metadata.uid)

    async def _hold(self, hyper_job: HyperJob, finalizers: list[str]) -> HyperJob:
        version = hyper_job.metadata.resource_version
        return await self._patch(hyper_job, {"metadata": {"resourceVersion": version, "finalizers": finalizers}})

    async def _patch(
        self,
        hyper_job: HyperJob,
        patch: _Patch,
        *,
        subresource: str = "",
        how: PatchKind = PatchKind.MERGE,
    ) -> HyperJob:
        try:
            answer = await self._client.patch(HYPER_JOBS, hyper_job.key, patch, how, subresource=subresource)
        except NotFound:
            return hyper_job
        written = record_of(answer, HyperJob)
        self._hyper_jobs.put(written)
        return written

    def _jobs_of(self, hyper_job: HyperJob) -> dict[str, Job]:
        """Its Jobs by name, our own writes included; a name is used once whatever the domain."""
        uid = hyper_job.metadata.uid
        known = [job.key for job in self._jobs.informer.by_index(HYPER_JOB, uid)]
        parts = hyperjobs.split(hyper_job)
        if not isinstance(parts, Problem):
            known += [Key(part.domain, part.name) for part in parts]
        found = [job for key in dict.fromkeys(known) if (job := self._jobs.get(key)) is not None]
        return {job.metadata.name: job for job in found if job.metadata.labels.get(keys.HYPER_JOB_UID) == uid}

    def _enqueue(self, key: Key, *, after: float = 0.0) -> None:
        if self._shards.owns(key):
            pace = self._paces.get(key)
            self._queue.add_after(key, max(after, pace.wait() if pace is not None and after else 0.0))

    def _changed(self, old: HyperJob | None, new: HyperJob | None) -> None:
        if new is None and old is not None:
            self._paces.pop(old.key, None)
        ends = new is not None and old is not None and new.metadata.is_terminating != old.metadata.is_terminating
        if new is not None and (old is None or ends or old.metadata.generation != new.metadata.generation):
            self._enqueue(new.key)

    def _job(self, old: Job | None, new: Job | None) -> None:
        job = new or old
        if job is None or keys.HYPER_JOB_UID not in job.metadata.labels:
            return
        if old is None or new is None or old.status != new.status:
            self._enqueue(Key.parse(job.metadata.annotations.get(keys.HYPER_JOB, "")), after=_DEBOUNCE)

    def _namespace(self, old: Namespace | None, new: Namespace | None) -> None:
        """A namespace that comes, or takes Jobs from now on, may be one that was waited for."""
        if new is not None and (old is None or old.metadata.annotations != new.metadata.annotations):
            for hyper_job in self._hyper_jobs.informer.values():
                if any(new.metadata.name in entry.cluster_names for entry in hyper_job.spec.replicated_jobs):
                    self._enqueue(hyper_job.key)
