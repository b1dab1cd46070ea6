"""The Jobs of a CronJob: their names and manifests, how a Job is recognised, and the status of the CronJob."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from typing import Any, Self

import msgspec

from pyroclast.api import keys
from pyroclast.api.records import CronJob, Job, ObjectReference
from pyroclast.api.types import CRON_JOBS, JOBS
from pyroclast.lifecycle.merging import controller_reference
from pyroclast.lifecycle.times import format_time, parse_time


def job_name(cron_job: CronJob, time: float) -> str:
    """Return the name of the Job for `time`, in seconds since the epoch: there is at most one Job for each minute."""
    return f"{cron_job.metadata.name}-{int(time) // 60}"


def manifest(cron_job: CronJob, time: float, zone: tzinfo | None) -> dict[str, Any]:
    """Return the Job to create for `time`. `zone` is the time zone of the CronJob, None when it names none."""
    template, meta = cron_job.spec.job_template, cron_job.metadata
    when = datetime.fromtimestamp(time, zone or UTC).isoformat().replace("+00:00", "Z")
    annotations = {key: value for key, value in template.metadata.annotations.items() if key != keys.SUBMITTED_BY}
    if by := meta.annotations.get(keys.SUBMITTED_BY):
        annotations[keys.SUBMITTED_BY] = by
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {
            "name": job_name(cron_job, time),
            "namespace": meta.namespace,
            "labels": dict(template.metadata.labels),
            "annotations": {**annotations, keys.CRON_JOB_SCHEDULED_TIMESTAMP: when},
            "ownerReferences": [controller_reference(CRON_JOBS, meta)],
        },
        "spec": msgspec.json.decode(template.spec) if template.spec else {},
    }


def owner_of(job: Job) -> str:
    """Return the UID of the CronJob that owns `job`. Empty when no CronJob owns it."""
    owner = job.metadata.controller_of(CRON_JOBS)
    return owner.uid if owner is not None else ""


def is_owned(cron_job: CronJob, job: Job) -> bool:
    """Return whether `cron_job` owns `job`. An older CronJob of the same name does not count."""
    return owner_of(job) == cron_job.metadata.uid


def scheduled_time(cron_job: CronJob, job: Job) -> float | None:
    """Return the scheduled time of `job`. None when the controller did not create the Job."""
    try:
        time = parse_time(job.metadata.annotations.get(keys.CRON_JOB_SCHEDULED_TIMESTAMP, ""))
    except ValueError:
        return None
    return time if job.metadata.name == job_name(cron_job, time) else None


def reference(job: Job) -> ObjectReference:
    """Return the reference to `job` in the status of its CronJob."""
    meta = job.metadata
    return ObjectReference(
        api_version=JOBS.api_version,
        kind=JOBS.kind,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )


@dataclass(frozen=True, slots=True)
class CronState:
    """The status of a CronJob.

    Attributes:
        active: references to the running Jobs.
        last_schedule: the last scheduled time that was acted on, in seconds since the epoch.
        last_successful: when a Job completed last, in RFC 3339.
    """

    active: tuple[ObjectReference, ...] = ()
    last_schedule: float | None = None
    last_successful: str | None = None

    @classmethod
    def of(cls, cron_job: CronJob) -> Self:
        """Return the state in the status of `cron_job`."""
        status = cron_job.status
        last = parse_time(status.last_schedule_time) if status.last_schedule_time else None
        return cls(status.active, last, status.last_successful_time)

    def without(self, uid: str) -> Self:
        """Return this state without the Job with this UID."""
        return replace(self, active=tuple(each for each in self.active if each.uid != uid))

    def with_job(self, job: Job) -> Self:
        """Return this state with `job` added as a running Job."""
        return replace(self, active=(*self.without(job.metadata.uid).active, reference(job)))

    def acted_on(self, time: float) -> Self:
        """Return this state after the scheduled time `time` was acted on. Earlier times then no longer need a Job."""
        return replace(self, last_schedule=max(self.last_schedule or time, time))

    def has(self, uid: str) -> bool:
        """Return whether the Job with this UID is listed as running."""
        return any(each.uid == uid for each in self.active)

    def patch(self, cron_job: CronJob) -> dict[str, Any]:
        """Return the merge patch of the status, which fails with a conflict if `cron_job` has changed; empty for equal states."""
        if self == CronState.of(cron_job):
            return {}
        active = [{name: value for name, value in msgspec.to_builtins(each).items() if value} for each in self.active]
        last = format_time(self.last_schedule) if self.last_schedule is not None else None
        status = {"active": active or None, "lastScheduleTime": last, "lastSuccessfulTime": self.last_successful}
        return {"metadata": {"resourceVersion": cron_job.metadata.resource_version}, "status": status}
