"""Makes the Jobs of every HyperJob in their domains, and tells in its status how they are."""

from __future__ import annotations

from typing import Any, Final

import structlog

from pyroclast.api import keys
from pyroclast.api.records import HyperJob, Job, Namespace
from pyroclast.api.types import HYPER_JOBS, JOBS, Key
from pyroclast.kube.client import PatchKind
from pyroclast.kube.errors import AlreadyExists, ApiError, NotFound, is_transient
from pyroclast.kube.events import Reference
from pyroclast.kube.informer import Informer
from pyroclast.kube.own_writes import Recent
from pyroclast.kube.rejections import subjects_of
from pyroclast.kube.response_records import record_of
from pyroclast.kube.sharded_queue import ShardedQueue
from pyroclast.lifecycle import hyperjobs
from pyroclast.lifecycle.hyperjobs import FINALIZER, Part, Problem
from pyroclast_job_controller.caches import HYPER_JOB
from pyroclast_job_controller.hyperjob.domains import NamespaceDomains
from pyroclast_job_controller.shared import Shared

__all__ = ["HyperJobController"]

log = structlog.get_logger()

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
        jobs = self._jobs_of(hyper_job)
        if hyper_job.metadata.is_terminating:
            await self._clean_up(hyper_job, jobs)
            return
        parts = hyperjobs.split(hyper_job)
        problem = parts if isinstance(parts, Problem) else None
        if not isinstance(parts, Problem):
            wanted = {part.name for part in parts}
            for job in [job for name, job in jobs.items() if name not in wanted]:
                await self._delete(job)
            for part in parts:
                if part.name not in jobs and not hyperjobs.has_ended(hyper_job, part.name):
                    hyper_job, found = await self._place(hyper_job, part)
                    problem = problem or found
                    self._queue.gets_on(key)
            jobs = self._jobs_of(hyper_job)
        if problem is not None:
            self._recorder.event(Reference.of(hyper_job, HYPER_JOBS), "Warning", problem.reason, problem.message)
            self._queue.add_after(key, _AGAIN)
        patch = hyperjobs.status(hyper_job, jobs, problem, now=self._now())
        if patch:
            await self._patch(hyper_job, patch, subresource="status")

    async def _place(self, hyper_job: HyperJob, part: Part) -> tuple[HyperJob, Problem | None]:
        """Make the Job of `part`; the HyperJob as it is then, and why it could not be made."""
        domain = self._domains.find(hyper_job, part.domain)
        if isinstance(domain, Problem):
            return hyper_job, domain
        if domain.namespace != hyper_job.metadata.namespace and FINALIZER not in hyper_job.metadata.finalizers:
            hyper_job = await self._hold(hyper_job, [*hyper_job.metadata.finalizers, FINALIZER])
        body = hyperjobs.manifest(hyper_job, part, domain.namespace)
        try:
            job = record_of(await domain.client.create(JOBS, body), Job)
        except AlreadyExists:
            job = record_of(await domain.client.get(JOBS, Key(domain.namespace, part.name)), Job)
            if job.metadata.labels.get(keys.HYPER_JOB_UID) != hyper_job.metadata.uid:
                return hyper_job, Problem("JobNameTaken", f"Job {job.key} is there already and not of this HyperJob")
        except ApiError as error:
            if is_transient(error):
                raise
            return hyper_job, Problem("JobRefused", f"Job {domain.namespace}/{part.name}: {error.message}")
        else:
            log.info("hyperjob.placed", hyperjob=str(hyper_job.key), job=str(job.key))
        self._jobs.put(job)
        return hyper_job, None

    async def _clean_up(self, hyper_job: HyperJob, jobs: dict[str, Job]) -> None:
        """Delete the Jobs; the HyperJob itself may go when the last one has gone."""
        if FINALIZER not in hyper_job.metadata.finalizers:
            return
        for job in jobs.values():
            await self._delete(job)
        if not self._jobs.informer.by_index(HYPER_JOB, hyper_job.metadata.uid):
            await self._hold(hyper_job, [name for name in hyper_job.metadata.finalizers if name != FINALIZER])

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

    async def _patch(self, hyper_job: HyperJob, patch: dict[str, Any], *, subresource: str = "") -> HyperJob:
        try:
            answer = await self._client.patch(HYPER_JOBS, hyper_job.key, patch, PatchKind.MERGE, subresource=subresource)
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

    def _enqueue(self, key: Key) -> None:
        if self._shards.owns(key):
            self._queue.add(key)

    def _changed(self, old: HyperJob | None, new: HyperJob | None) -> None:
        ends = new is not None and old is not None and new.metadata.is_terminating != old.metadata.is_terminating
        if new is not None and (old is None or ends or old.metadata.generation != new.metadata.generation):
            self._enqueue(new.key)

    def _job(self, old: Job | None, new: Job | None) -> None:
        job = new or old
        if job is None or keys.HYPER_JOB_UID not in job.metadata.labels:
            return
        if old is None or new is None or old.status != new.status:
            self._enqueue(Key.parse(job.metadata.annotations.get(keys.HYPER_JOB, "")))

    def _namespace(self, old: Namespace | None, new: Namespace | None) -> None:
        """A namespace that comes, or takes Jobs from now on, may be one that was waited for."""
        if new is not None and (old is None or old.metadata.annotations != new.metadata.annotations):
            for hyper_job in self._hyper_jobs.informer.values():
                if any(new.metadata.name in entry.cluster_names for entry in hyper_job.spec.replicated_jobs):
                    self._enqueue(hyper_job.key)
