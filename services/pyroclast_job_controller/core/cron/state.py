"""The status of a CronJob, as decisions work on it and as it is written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import msgspec

from pyroclast.api.records import CronJob, Job, ObjectReference
from pyroclast.lifecycle.times import format_time, parse_time
from pyroclast_job_controller.core.cron.jobs import reference

__all__ = ["CronState"]


@dataclass(frozen=True, slots=True)
class CronState:
    """The Jobs that run, the last time that was acted on (seconds since the epoch), and when a Job completed last (RFC 3339)."""

    active: tuple[ObjectReference, ...] = ()
    last_schedule: float | None = None
    last_successful: str | None = None

    @classmethod
    def of(cls, cron_job: CronJob) -> Self:
        """What stands in the status of `cron_job`."""
        status = cron_job.status
        last = parse_time(status.last_schedule_time) if status.last_schedule_time else None
        return cls(status.active, last, status.last_successful_time)

    def without(self, uid: str) -> Self:
        """The Job of that uid no longer runs."""
        return replace(self, active=tuple(each for each in self.active if each.uid != uid))

    def with_job(self, job: Job) -> Self:
        """`job` runs."""
        return self.without(job.metadata.uid)._plus(reference(job))

    def acted_on(self, time: float) -> Self:
        """`time` of the schedule needs no Job any more, nor does one before it."""
        return replace(self, last_schedule=max(self.last_schedule or time, time))

    def has(self, uid: str) -> bool:
        """Whether the Job of that uid is listed."""
        return any(each.uid == uid for each in self.active)

    def patch(self, cron_job: CronJob) -> dict[str, Any]:
        """The merge patch of the status that makes `cron_job` show this, if it has not changed meanwhile; empty if it does."""
        if self == CronState.of(cron_job):
            return {}
        active = [{name: value for name, value in msgspec.to_builtins(each).items() if value} for each in self.active]
        last = format_time(self.last_schedule) if self.last_schedule is not None else None
        status = {"active": active or None, "lastScheduleTime": last, "lastSuccessfulTime": self.last_successful}
        return {"metadata": {"resourceVersion": cron_job.metadata.resource_version}, "status": status}

    def _plus(self, job: ObjectReference) -> Self:
        return replace(self, active=(*self.active, job))
