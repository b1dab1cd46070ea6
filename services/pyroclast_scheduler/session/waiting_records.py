"""Makes the record of a waiting job from the results of a session."""

from __future__ import annotations

from pyroclast.api import waiting_reasons as pending
from pyroclast.api.enums import PodGroupConditionType
from pyroclast_scheduler.model.causes import Cause, WaitingRecord
from pyroclast_scheduler.model.groups import GroupStatus
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.session.session import Session


def record_of(session: Session, job: Job, cause: Cause, status: GroupStatus) -> WaitingRecord:
    """Return the record of a job that waits for `cause`. `status`: the new status of its PodGroup."""
    message, before = _said(status), _said(job.facts.group.status)
    summary = pending.summary_of(message) or str(cause)
    is_new = message != before or not message
    return WaitingRecord(
        cause.reason,
        summary.partition(": ")[2],
        job.facts.queue,
        session.job_key(job),
        tuple(cause.short()) if is_new else None,
        cause.holder,
    )


def _said(status: GroupStatus) -> str:
    return next((each.message for each in status.conditions if each.type == PodGroupConditionType.UNSCHEDULABLE), "")
