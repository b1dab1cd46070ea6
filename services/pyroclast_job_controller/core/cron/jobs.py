"""The Jobs of a CronJob: their names, what they are made from, and how one is known again."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Any

import msgspec

from pyroclast.api import keys
from pyroclast.api.records import CronJob, Job, ObjectReference
from pyroclast.api.types import CRON_JOBS, JOBS
from pyroclast.lifecycle.ownership import controller_reference
from pyroclast.lifecycle.times import parse_time

__all__ = ["is_owned", "job_name", "manifest", "owner_of", "reference", "scheduled_time"]


def job_name(cron_job: CronJob, time: float) -> str:
    """The name of the Job for `time`, in seconds since the epoch: it carries the minute, so there is one Job a minute at most."""
    return f"{cron_job.metadata.name}-{int(time) // 60}"


def manifest(cron_job: CronJob, time: float, zone: tzinfo | None) -> dict[str, Any]:
    """The Job to create for `time`; `zone` is that of the CronJob, None when it names none."""
    template, meta = cron_job.spec.job_template, cron_job.metadata
    when = datetime.fromtimestamp(time, zone or UTC).isoformat().replace("+00:00", "Z")
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {
            "name": job_name(cron_job, time),
            "namespace": meta.namespace,
            "labels": dict(template.metadata.labels),
            "annotations": {**_passed_on(cron_job), keys.CRON_JOB_SCHEDULED_TIMESTAMP: when},
            "ownerReferences": [controller_reference(CRON_JOBS, meta)],
        },
        "spec": msgspec.json.decode(template.spec) if template.spec else {},
    }


def _passed_on(cron_job: CronJob) -> dict[str, str]:
    """The annotations of the template; who submitted the CronJob has submitted its Jobs, whatever the template says."""
    annotations = {**cron_job.spec.job_template.metadata.annotations}
    annotations.pop(keys.SUBMITTED_BY, None)
    by = cron_job.metadata.annotations.get(keys.SUBMITTED_BY)
    return {**annotations, keys.SUBMITTED_BY: by} if by else annotations


def owner_of(job: Job) -> str:
    """The uid of the CronJob that `job` belongs to; empty when it belongs to none."""
    owner = job.metadata.controller
    ours = owner is not None and owner.kind == CRON_JOBS.kind and owner.api_version == CRON_JOBS.api_version
    return owner.uid if owner is not None and ours else ""


def is_owned(cron_job: CronJob, job: Job) -> bool:
    """Whether `job` belongs to `cron_job`, that very one and not a namesake."""
    return owner_of(job) == cron_job.metadata.uid


def scheduled_time(cron_job: CronJob, job: Job) -> float | None:
    """The time of the schedule that `job` was made for; None when it was not made by the controller."""
    try:
        time = parse_time(job.metadata.annotations.get(keys.CRON_JOB_SCHEDULED_TIMESTAMP, ""))
    except ValueError:
        return None
    return time if job.metadata.name == job_name(cron_job, time) else None


def reference(job: Job) -> ObjectReference:
    """How the status of the CronJob refers to `job`."""
    meta = job.metadata
    return ObjectReference(
        api_version=JOBS.api_version,
        kind=JOBS.kind,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )
