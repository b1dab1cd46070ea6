"""CronJob: makes Jobs at set times."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge

from pyroclast.api import types
from pyroclast.api.enums import ConcurrencyPolicy
from pyroclast.api.jobs import JobSpec
from pyroclast.api.kinds import CustomKind
from pyroclast.api.shared import ObjectReference
from pyroclast.api.wire import ATOMIC, ApiObject, Count, EmbeddedMetadata, Extra, Time, WireModel

__all__ = ["KIND", "CronJob", "CronJobSpec", "CronJobStatus", "JobTemplateSpec"]


class JobTemplateSpec(WireModel):
    """What the Jobs of a CronJob look like."""

    metadata: EmbeddedMetadata | None = None
    """Metadata of the Jobs, of which labels and annotations are taken over."""
    spec: JobSpec | None = None
    """What the Jobs should be."""


class CronJobSpec(WireModel):
    """When a CronJob makes Jobs, and which."""

    schedule: str
    """When, in the five fields of cron or as a descriptor such as `@daily`."""
    time_zone: str | None = None
    """The zone of the schedule by its IANA name; that of the controller when absent."""
    starting_deadline_seconds: Annotated[int, Ge(0), Extra({"format": "int64"})] | None = None
    """How many seconds late a Job may still be made."""
    concurrency_policy: ConcurrencyPolicy = ConcurrencyPolicy.ALLOW
    """What to do when the last Job still runs."""
    suspend: bool = False
    """Makes no Jobs for the time being."""
    job_template: JobTemplateSpec
    """What the Jobs look like."""
    successful_jobs_history_limit: Count = 3
    """How many completed Jobs are kept."""
    failed_jobs_history_limit: Count = 1
    """How many failed Jobs are kept."""


class CronJobStatus(WireModel):
    """What a CronJob has made."""

    active: Annotated[list[ObjectReference], ATOMIC] | None = None
    """The Jobs that run."""
    last_schedule_time: Time | None = None
    """The last time of the schedule at which a Job was made."""
    last_successful_time: Time | None = None
    """When a Job completed last."""


class CronJob(ApiObject):
    """A CronJob makes Jobs at set times."""

    spec: CronJobSpec | None = None
    """When and which Jobs are made."""
    status: CronJobStatus | None = None
    """What was made."""


KIND = CustomKind(types.CRON_JOBS, CronJob, ("cronvcjob", "cronvj"))
