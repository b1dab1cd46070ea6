"""CronJob: creates Jobs at scheduled times."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge

from pyroclast.api import types
from pyroclast.api.enums import ConcurrencyPolicy
from pyroclast.api.jobs import JobSpec
from pyroclast.api.shared import CustomKind, ObjectReference
from pyroclast.api.wire import ATOMIC, ApiObject, Count, EmbeddedMetadata, Extra, Time, WireModel


class JobTemplateSpec(WireModel):
    """The template of a CronJob's Jobs."""

    metadata: EmbeddedMetadata | None = None
    """Metadata of the Jobs; only labels and annotations are used."""
    spec: JobSpec | None = None
    """The spec of the Jobs."""


class CronJobSpec(WireModel):
    """The schedule of a CronJob, and the Jobs that it creates."""

    schedule: str
    """The schedule, in the five fields of cron or as a descriptor such as `@daily`."""
    time_zone: str | None = None
    """The time zone of the schedule, as an IANA name; the zone of the controller when absent."""
    starting_deadline_seconds: Annotated[int, Ge(0), Extra({"format": "int64"})] | None = None
    """How many seconds late a Job may be created."""
    concurrency_policy: ConcurrencyPolicy = ConcurrencyPolicy.ALLOW
    """What happens at a scheduled time when the last Job still runs."""
    suspend: bool = False
    """Whether the CronJob creates no Jobs at present."""
    job_template: JobTemplateSpec
    """The template of the Jobs."""
    successful_jobs_history_limit: Count = 3
    """The number of completed Jobs to keep."""
    failed_jobs_history_limit: Count = 1
    """The number of failed Jobs to keep."""


class CronJobStatus(WireModel):
    """The state of a CronJob."""

    active: Annotated[list[ObjectReference], ATOMIC] | None = None
    """The unfinished Jobs."""
    last_schedule_time: Time | None = None
    """The last scheduled time at which a Job was created."""
    last_successful_time: Time | None = None
    """When a Job last completed."""


class CronJob(ApiObject):
    """A CronJob creates Jobs at scheduled times."""

    spec: CronJobSpec | None = None
    """The schedule, and the Jobs to create."""
    status: CronJobStatus | None = None
    """The state of the CronJob."""


KIND = CustomKind(types.CRON_JOBS, CronJob, ("cronvcjob", "cronvj"))
