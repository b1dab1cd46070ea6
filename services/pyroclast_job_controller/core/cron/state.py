"""The status of a CronJob, in the form that decisions use, and its patch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import msgspec

from pyroclast.api.records import CronJob, Job, ObjectReference
from pyroclast.lifecycle.times import format_time, parse_time
from pyroclast_job_controller.core.cron.jobs import reference


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
        return self.without(job.metadata.uid)._plus(reference(job))

    def acted_on(self, time: float) -> Self:
        """Return this state after the scheduled time `time` was acted on. Earlier times then no longer need a Job."""
        return replace(self, last_schedule=max(self.last_schedule or time, time))

    def has(self, uid: str) -> bool:
        """Return whether the Job with this UID is listed as running."""
        return any(each.uid == uid for each in self.active)

    def patch(self, cron_job: CronJob) -> dict[str, Any]:
        """Return the merge patch that writes this state to the status of the CronJob.

        The patch is empty when the status already equals this state. The patch fails with a conflict if `cron_job` has changed
        meanwhile.
        """
        if self == CronState.of(cron_job):
            return {}
        active = [{name: value for name, value in msgspec.to_builtins(each).items() if value} for each in self.active]
        last = format_time(self.last_schedule) if self.last_schedule is not None else None
        status = {"active": active or None, "lastScheduleTime": last, "lastSuccessfulTime": self.last_successful}
        return {"metadata": {"resourceVersion": cron_job.metadata.resource_version}, "status": status}

    def _plus(self, job: ObjectReference) -> Self:
        return replace(self, active=(*self.active, job))
