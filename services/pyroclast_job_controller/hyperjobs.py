"""Creates the Jobs of every HyperJob in their domains, and writes the status of HyperJobs."""

from __future__ import annotations

from functools import partial
from typing import Any, Final, TypeAlias

import structlog

from pyroclast.api import keys
from pyroclast.api.records import HyperJob, Job, Namespace
from pyroclast.api.types import HYPER_JOBS, JOBS, Key
from pyroclast.kube.basics.errors import AlreadyExists, ApiError, is_transient
from pyroclast.kube.http.batches import at_once, slow_start
from pyroclast.kube.http.client import PatchKind
from pyroclast.kube.http.response_records import found, has_deleted, record_of
from pyroclast.kube.watch.informer import Informer
from pyroclast.kube.watch.own_writes import Recent
from pyroclast.kube.workqueue.sharded_queue import ShardedQueue
from pyroclast.lifecycle import hyperjobs
from pyroclast.lifecycle.effects import warning
from pyroclast.lifecycle.hyperjobs import HyperDecision, HyperFacts, HyperJobPart, Problem, decide
from pyroclast.runtime.in_process.jobs import JobCreator
from pyroclast.runtime.reconciler import ON_CHANGE, Memories, Memory, Reconciler, Requeue
from pyroclast_job_controller.caches import HYPER_JOB, Shared

log = structlog.get_logger()

_Patch: TypeAlias = dict[str, Any] | list[dict[str, Any]]

_DEBOUNCE: Final = 0.05
"""Seconds in which changes of a HyperJob's Jobs are collected before it is reconciled."""

_AGAIN: Final = 60.0
"""Seconds until the creation of a refused Job is tried again, unless an event announces earlier that it may succeed."""


class HyperJobController(Reconciler[HyperJob, HyperFacts, HyperDecision, Memory]):
    """The controller of HyperJobs. The label of a Job with the HyperJob's UID marks its Jobs in every namespace."""

    def __init__(self, shared: Shared, queue: ShardedQueue[Key], creator: JobCreator) -> None:
        self._creator = creator
        self._jobs, self._namespaces = shared.caches.jobs, shared.caches.namespaces
        objects = Recent(Informer(shared.client, HYPER_JOBS, HyperJob), shared.clock)
        memories = Memories[HyperJob, Memory](Memory, shared.clock)
        super().__init__(shared, HYPER_JOBS, decide, objects, memories=memories, queue=queue)
        shared.caches.watch(objects.informer)
        shared.caches.watch(self._namespaces)
        objects.informer.on_change(self._changed)
        self._jobs.informer.on_change(self._job)
        self._namespaces.on_change(self._namespace)

    def _facts(self, record: HyperJob, memory: Memory) -> HyperFacts:  # noqa: ARG002 - its pace only limits writes
        names = {name for entry in record.spec.replicated_jobs for name in entry.cluster_names}
        is_empty = not self._jobs.informer.by_index(HYPER_JOB, record.metadata.uid)
        namespaces = {name: self._namespaces.get(Key("", name)) for name in names}
        return HyperFacts(record, self._jobs_of(record), is_empty, namespaces)

    async def _act(self, facts: HyperFacts, memory: Memory, decision: HyperDecision) -> Requeue:
        hyper_job = facts.hyper_job
        if errors := await at_once(decision.delete, partial(self._delete, hyper_job.key)):
            raise errors[0]
        if decision.finalizers is not None:
            meta = {"resourceVersion": hyper_job.metadata.resource_version, "finalizers": list(decision.finalizers)}
            hyper_job = await self._patch(hyper_job, {"metadata": meta})
        if facts.hyper_job.metadata.is_terminating:
            return ON_CHANGE
        problem = decision.problem or await self._place_all(hyper_job, decision)
        if problem is not None:
            self._record(hyper_job, warning(problem.reason, problem.message))
            self._queue.add_after(hyper_job.key, _AGAIN)
        if pause := memory.pace.wait():
            return Requeue(self._now() + pause)
        patch = hyperjobs.status(hyper_job, self._jobs_of(hyper_job), problem, now=self._now())
        if patch:
            operations = hyperjobs.status_patch(hyper_job, patch["status"])
            how = PatchKind.MERGE if operations is None else PatchKind.JSON
            await self._patch(hyper_job, patch if operations is None else operations, subresource="status", how=how)
            memory.pace.written()
        return ON_CHANGE

    async def _place_all(self, hyper_job: HyperJob, decision: HyperDecision) -> Problem | None:
        """Create the missing Jobs. Return the problem of the first Job that could not be created, or None."""
        problems = dict(decision.problems or {})

        async def place(part: HyperJobPart) -> None:
            if part.name not in problems and (problem := await self._place(hyper_job, part)) is not None:
                problems[part.name] = problem
            self._queue.gets_on(hyper_job.key)

        errors = await slow_start(decision.missing, place)
        if errors:
            raise errors[0]
        return next((problems[part.name] for part in decision.missing if part.name in problems), None)

    async def _place(self, hyper_job: HyperJob, part: HyperJobPart) -> Problem | None:
        body = hyperjobs.manifest(hyper_job, part, part.domain)
        try:
            job = record_of(await self._creator.create(body), Job)
        except AlreadyExists:
            job = record_of(await self._client.get(JOBS, Key(part.domain, part.name)), Job)
            if job.metadata.labels.get(keys.HYPER_JOB_UID) != hyper_job.metadata.uid:
                return Problem("JobNameTaken", f"Job {job.key} is there already and not of this HyperJob")
        except ApiError as error:
            if is_transient(error):
                raise
            return Problem("JobRefused", f"Job {part.domain}/{part.name}: {error.message}")
        else:
            log.info("hyperjob.placed", hyperjob=str(hyper_job.key), job=str(job.key))
        self._jobs.put(job)
        return None

    async def _delete(self, hyper_job: Key, job: Job) -> None:
        await has_deleted(self._client.delete(JOBS, job.key, uid=job.metadata.uid, propagation="Background"))
        self._jobs.gone(job.key, job.metadata.uid)
        self._queue.gets_on(hyper_job)

    async def _patch(
        self, hyper_job: HyperJob, patch: _Patch, *, subresource: str = "", how: PatchKind = PatchKind.MERGE
    ) -> HyperJob:
        answer = await found(self._client.patch(HYPER_JOBS, hyper_job.key, patch, how, subresource=subresource))
        if answer is None:
            return hyper_job
        written = record_of(answer, HyperJob)
        self._objects.put(written)
        return written

    def _jobs_of(self, hyper_job: HyperJob) -> dict[str, Job]:
        """Return the Jobs of a HyperJob by name, including our own recent writes. A name is unique over all domains."""
        uid = hyper_job.metadata.uid
        known = [job.key for job in self._jobs.informer.by_index(HYPER_JOB, uid)]
        parts = hyperjobs.split(hyper_job)
        if not isinstance(parts, Problem):
            known += [Key(part.domain, part.name) for part in parts]
        there = [job for key in dict.fromkeys(known) if (job := self._jobs.get(key)) is not None]
        return {job.metadata.name: job for job in there if job.metadata.labels.get(keys.HYPER_JOB_UID) == uid}

    def _changed(self, old: HyperJob | None, new: HyperJob | None) -> None:
        ends = new is not None and old is not None and new.metadata.is_terminating != old.metadata.is_terminating
        if new is not None and (old is None or ends or old.metadata.generation != new.metadata.generation):
            self._queue.add(new.key)

    def _job(self, old: Job | None, new: Job | None) -> None:
        job = new or old
        if job is None or keys.HYPER_JOB_UID not in job.metadata.labels:
            return
        if old is None or new is None or old.status != new.status:
            key = Key.parse(job.metadata.annotations.get(keys.HYPER_JOB, ""))
            memory = self._memories.known(key)
            self._queue.add_after(key, max(_DEBOUNCE, memory.pace.wait() if memory is not None else 0.0))

    def _namespace(self, old: Namespace | None, new: Namespace | None) -> None:
        """Enqueue the HyperJobs that name a namespace which was created or whose annotations changed."""
        if new is not None and (old is None or old.metadata.annotations != new.metadata.annotations):
            for hyper_job in self._objects.informer.values():
                if any(new.metadata.name in entry.cluster_names for entry in hyper_job.spec.replicated_jobs):
                    self._queue.add(hyper_job.key)
