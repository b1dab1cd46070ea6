"""Events for the users of a Job about delayed actions and about waiting."""

from __future__ import annotations

from collections.abc import Iterator

from pyroclast.api.enums import JobEventReason, JobPhase
from pyroclast.api.records import Job, PodGroup
from pyroclast.lifecycle.gang import volumes
from pyroclast.lifecycle.job import waits
from pyroclast.lifecycle.job.absent_scheduler import absent_scheduler
from pyroclast.lifecycle.job.facts import JobFacts
from pyroclast.lifecycle.job.policies import Response
from pyroclast.lifecycle.notices import Notice, normal, warning
from pyroclast.lifecycle.times import format_duration


def armed(response: Response) -> Notice:
    """Return the Event that announces the delayed action of `response`."""
    after = format_duration(response.delay)
    return normal(JobEventReason.EXECUTE_ACTION, f"Execute action {response.action} after {after}")


def unscheduled(job: Job, group: PodGroup | None) -> Notice | None:
    """Return the Event about why the gang is not placed; None when the gang is placed, or when no reason is known.

    Either the PodGroup waits for its finalizers while it is being deleted, or its newest condition gives the reason.
    """
    if group is not None and group.metadata.is_terminating and group.metadata.finalizers and not job.metadata.is_terminating:
        held = ", ".join(group.metadata.finalizers)
        message = f"PodGroup {group.key} is being deleted and waits for its finalizers: {held}"
        return warning(JobEventReason.POD_GROUP_PENDING, message)
    newest = waits.newest_condition(group)
    if newest is None:
        return None
    message = f"PodGroup {job.metadata.namespace}:{job.metadata.name} {newest[0].lower()}, reason: {newest[1]}"
    return warning(JobEventReason.POD_GROUP_PENDING, message)


def waiting(facts: JobFacts) -> Iterator[Notice]:
    """Yield Events about the claim, the queue or the scheduler for which a Job waits, although nothing was refused."""
    if facts.job.status.state.phase in (JobPhase.NEW, JobPhase.PENDING):
        if awaited := volumes.examine(facts.job, facts.claims).awaited:
            message = f"Failed to create PVC, err: {waits.missing_claim(awaited[0])}"
            yield warning(JobEventReason.PVC_ERROR, message)
        if absent := absent_scheduler(facts):
            yield warning(JobEventReason.NO_SCHEDULER, absent.partition(": ")[2])
            return
        if closed := waits.closed_queue(facts):
            yield warning(JobEventReason.POD_GROUP_PENDING, closed)
            return
    pending = unscheduled(facts.job, facts.group)
    if pending:
        yield pending
