"""Creates the Jobs of every CronJob at its scheduled times, at most one Job for each time."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, tzinfo
from functools import lru_cache
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

import structlog

from pyroclast.api.records import CronJob, Job
from pyroclast.api.types import CRON_JOBS, JOBS, Key
from pyroclast.kube.basics.errors import AlreadyExists, ApiError, KubeError, NotFound, is_terminating_namespace, is_transient
from pyroclast.kube.http.client import PatchKind
from pyroclast.kube.http.response_records import found, record_of
from pyroclast.kube.watch.informer import Informer
from pyroclast.kube.watch.own_writes import Recent
from pyroclast.kube.workqueue.sharded_queue import ShardedQueue
from pyroclast.lifecycle.cron import jobs as cron_jobs
from pyroclast.lifecycle.cron.clock import Clock, earliest_time, wait
from pyroclast.lifecycle.cron.jobs import CronState
from pyroclast.lifecycle.cron.review import CronDecision, CronFacts, CronPlan, decide
from pyroclast.lifecycle.effects import Notice, normal, warning
from pyroclast.resources.cron import CronError, parse, split_zone
from pyroclast.runtime.in_process.jobs import JobCreator
from pyroclast.runtime.reconciler import Memories, Memory, Reconciler, Requeue
from pyroclast_job_controller.caches import OWNER, Shared

log = structlog.get_logger()


_REFUSED: Final = 60.0
"""Seconds until the creation of a refused Job is tried again, unless the next scheduled time is earlier."""


@dataclass(slots=True)
class CronMemory(Memory):
    """The state of a CronJob between two reconciles that is not in the cluster.

    `acted` is the time that was acted on last, until the status contains it. The Job may be deleted before that.
    """

    acted: float | None = None


class CronController(Reconciler[CronJob, CronFacts, CronDecision, CronMemory]):
    """The controller of CronJobs. All necessary state is in the statuses of CronJobs and in their Jobs.

    The name of a Job contains its scheduled time, so that no Job is created twice. A time counts as acted on as soon as its Job
    is seen, even if the status could not be written. Finished Jobs are deleted only after the status records them.
    """

    def __init__(self, shared: Shared, queue: ShardedQueue[Key], creator: JobCreator) -> None:
        self._creator = creator
        self._jobs, self._shards = shared.caches.jobs, shared.shards
        objects = Recent(Informer(shared.client, CRON_JOBS, CronJob), shared.clock)
        memories = Memories[CronJob, CronMemory](CronMemory, shared.clock)
        super().__init__(shared, CRON_JOBS, decide, objects, memories=memories, queue=queue)
        shared.caches.watch(objects.informer)
        objects.informer.on_change(self._changed)
        self._jobs.informer.on_change(self._job)

    def _facts(self, record: CronJob, memory: CronMemory) -> CronFacts:
        clock, notices = (None, ()) if record.spec.suspend else clock_of(record)
        return CronFacts(record, self._jobs_of(record), memory.acted, clock, notices, self._now())

    async def _act(self, facts: CronFacts, memory: CronMemory, decision: CronDecision) -> Requeue:
        cron_job, (results, planned) = facts.cron_job, decision
        self._record(cron_job, *results.notices)
        cron_job = await self._write(cron_job, memory, results.state)
        for job in results.prune:
            await self._delete(cron_job, job.metadata.name, job.metadata.uid)
        self._record(cron_job, *planned.notices)
        if planned.time is None or facts.clock is None:
            return Requeue(None if planned.again is None else facts.now + planned.again)
        again = await self._run(cron_job, memory, results.state, planned, clock=facts.clock)
        return Requeue(None if again is None else self._now() + again)

    async def _run(
        self, cron_job: CronJob, memory: CronMemory, state: CronState, planned: CronPlan, *, clock: Clock
    ) -> float | None:
        """Create the planned Job and write it to the status. Return the seconds until the next reconcile, or None."""
        time = planned.time or 0.0
        if not await self._is_current(cron_job):
            self._queue.add_rate_limited(cron_job.key)  # tried again as soon as the informer has the newest version
            return None
        for active in planned.replace:
            await self._delete(cron_job, active.name, active.uid)
            state = state.without(active.uid)
        try:
            job = await self._create(cron_job, time)
        except ApiError as error:
            refusal = warning("FailedCreate", f"Failed to create job: {error.message}")
            if is_terminating_namespace(error):
                text = f"Namespace {cron_job.metadata.namespace} is terminating, skipping job creation"
                refusal = warning("NamespaceTerminating", text)
            self._record(cron_job, refusal)
            if is_transient(error):
                raise
            return min(_REFUSED, planned.again if planned.again is not None else _REFUSED)
        if job is not None:
            state = state.with_job(job).acted_on(time)
            memory.acted = time
        await self._write(cron_job, memory, state)
        return wait(clock, earliest=earliest_time(cron_job, state.last_schedule), now=self._now())

    async def _create(self, cron_job: CronJob, time: float) -> Job | None:
        """Return the Job for `time`, created now or before. None when nothing needs to be recorded."""
        zone = zone_of(cron_job.spec.time_zone) if cron_job.spec.time_zone else None
        body = cron_jobs.manifest(cron_job, time, zone)
        name = body["metadata"]["name"]
        try:
            job = record_of(await self._creator.create(body), Job)
        except AlreadyExists:
            job = record_of(await self._client.get(JOBS, Key(cron_job.metadata.namespace, name)), Job)
            if not cron_jobs.is_owned(cron_job, job):
                owner = job.metadata.controller
                text = f"Job {name} exists but is not owned by this CronJob (current owner: {owner.name if owner else 'none'})"
                self._record(cron_job, warning("ForeignJob", text))
                return None
            self._jobs.put(job)
            return None if job.status.state.phase.is_finished else job
        self._jobs.put(job)
        self._record(cron_job, normal("SuccessfulCreate", f"Created job {name} for CronJob {cron_job.key}"))
        log.info("cronjob.run", cronjob=str(cron_job.key), job=name, scheduled=body["metadata"]["annotations"])
        return job

    async def _is_current(self, cron_job: CronJob) -> bool:
        """Return whether the cached CronJob is current. Otherwise another controller may have acted on the same time already."""
        if (answer := await found(self._client.get(CRON_JOBS, cron_job.key))) is None:
            return False
        live = record_of(answer, CronJob)
        if live.metadata.resource_version == cron_job.metadata.resource_version:
            return True
        if live.metadata.uid == cron_job.metadata.uid:
            self._objects.put(live)
        return False

    async def _delete(self, cron_job: CronJob, name: str, uid: str) -> None:
        key = Key(cron_job.metadata.namespace, name)
        try:
            await self._client.delete(JOBS, key, uid=uid, propagation="Background")
        except NotFound:
            log.debug("cronjob.job_gone", cronjob=str(cron_job.key), job=name)
        except KubeError as error:
            self._record(cron_job, warning("FailedDelete", f'Error deleting job "{name}": {error.message}'))
            raise
        else:
            self._record(cron_job, normal("SuccessfulDelete", f'Deleted job "{name}"'))
            log.info("cronjob.job_deleted", cronjob=str(cron_job.key), job=name)
        self._jobs.gone(key, uid)

    async def _write(self, cron_job: CronJob, memory: CronMemory, state: CronState) -> CronJob:
        """Write the status. Return the CronJob with it. After a conflict, the decision is made again."""
        patch = state.patch(cron_job)
        if patch:
            answer = await self._client.patch(CRON_JOBS, cron_job.key, patch, PatchKind.MERGE, subresource="status")
            cron_job = record_of(answer, CronJob)
            self._objects.put(cron_job)
        memory.acted = None
        return cron_job

    def _jobs_of(self, cron_job: CronJob) -> dict[str, Job]:
        """Return the Jobs that `cron_job` owns or that its status names, including our own recent writes."""
        owned = self._jobs.informer.by_index(OWNER, cron_job.metadata.uid)
        names = dict.fromkeys([*(job.metadata.name for job in owned), *(each.name for each in cron_job.status.active)])
        known = {name: self._jobs.get(Key(cron_job.metadata.namespace, name)) for name in names}
        return {name: job for name, job in known.items() if job is not None}

    def _changed(self, old: CronJob | None, new: CronJob | None) -> None:
        """Enqueue a changed CronJob. A new schedule counts from now on, so that its missed times are not made up for."""
        if new is None or (old is not None and old.metadata.generation == new.metadata.generation):
            return
        spec = new.spec
        if old is None or (old.spec.schedule, old.spec.time_zone) == (spec.schedule, spec.time_zone):
            self._queue.add(new.key)
            return
        if not self._shards.owns(new.key):
            return
        clock, notices = clock_of(new)
        self._record(new, *notices)
        last = CronState.of(new).last_schedule
        after = wait(clock, earliest=earliest_time(new, last), now=self._now()) if clock else None
        if after is not None:
            self._queue.add_after(new.key, after)

    def _job(self, old: Job | None, new: Job | None) -> None:
        if old is not None and new is not None and _standing(old) == _standing(new):
            return
        for job in (old, new):
            owner = job.metadata.controller if job is not None and cron_jobs.owner_of(job) else None
            if job is not None and owner is not None:
                self._queue.add(Key(job.metadata.namespace, owner.name))


def _standing(job: Job) -> tuple[bool, bool, str]:
    """Return the facts of a Job that matter to its CronJob."""
    return job.status.state.phase.is_finished, job.metadata.is_terminating, cron_jobs.owner_of(job)


_LOCAL_FILE: Final = Path("/etc/localtime")


class UnknownZone(ValueError):
    """No time zone has that name."""


@lru_cache(maxsize=1024)
def zone_of(name: str) -> tzinfo:
    """Return the time zone of that name. An empty name means UTC. Raises UnknownZone: no time zone has that name."""
    if not name:
        return UTC
    if name == "Local":
        return local_zone()
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise UnknownZone(f"unknown time zone {name}") from None


@lru_cache(maxsize=1)
def local_zone() -> tzinfo:
    """Return the time zone of this process: from `TZ`, from the configuration of the machine, or UTC."""
    name = os.environ.get("TZ", "").removeprefix(":")
    if name:
        try:
            return zone_of(name)
        except UnknownZone:
            return UTC
    try:
        with _LOCAL_FILE.open("rb") as file:
            return ZoneInfo.from_file(file)
    except (OSError, ValueError):
        return UTC


def clock_of(cron_job: CronJob) -> tuple[Clock | None, tuple[Notice, ...]]:
    """Return the schedule of a CronJob, and the Events about it. The schedule is None when it is invalid."""
    text, zone, notices = cron_job.spec.schedule, cron_job.spec.time_zone, list[Notice]()
    prefix, schedule = split_zone(text)
    try:
        here = local_zone() if zone is None else zone_of(zone)
        if "TZ" in text:
            note = "If set, the TimeZone field will be ignored during execution."
            what = f'CRON_TZ or TZ in the schedule "{text}" is not officially supported. {note}'
            notices.append(warning("UnsupportedSchedule", what))
            zone = prefix
            here = local_zone() if prefix is None else zone_of(prefix)
        return Clock(parse(schedule), here), tuple(notices)
    except UnknownZone as error:
        notices.append(warning("InvalidTimeZone", f'Invalid time zone "{zone}": {error}'))
    except CronError as error:
        notices.append(warning("UnParseableCronJobSchedule", f"unparseable schedule for cronjob: {text}"))
        log.warning("cronjob.unparseable", cronjob=str(cron_job.key), schedule=text, reason=str(error))
    return None, tuple(notices)
