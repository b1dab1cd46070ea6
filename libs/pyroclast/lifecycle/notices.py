"""What users are told of a Job in Events, beside what an answer itself says."""

from __future__ import annotations

from pyroclast.api.enums import JobEventReason, PodGroupConditionType
from pyroclast.api.records import Job, PodGroup
from pyroclast.lifecycle.policies import Response
from pyroclast.lifecycle.times import format_duration
from pyroclast.lifecycle.views import Notice

__all__ = ["armed", "unscheduled"]


def armed(response: Response) -> Notice:
    """That an action will be carried out unless what caused it passes."""
    after = format_duration(response.delay)
    return Notice("Normal", JobEventReason.EXECUTE_ACTION, f"Execute action {response.action} after {after}")


def unscheduled(job: Job, group: PodGroup | None) -> Notice | None:
    """Why the gang is not placed: its PodGroup is still going, or what the newest condition of that says; None when it is
    placed, or nothing is said.
    """
    if group is not None and group.metadata.is_terminating and group.metadata.finalizers and not job.metadata.is_terminating:
        held = ", ".join(group.metadata.finalizers)
        message = f"PodGroup {group.key} is being deleted and waits for its finalizers: {held}"
        return Notice("Warning", JobEventReason.POD_GROUP_PENDING, message)
    conditions = [condition for condition in group.status.conditions if condition.status == "True"] if group else []
    newest = max(conditions, key=lambda condition: condition.last_transition_time or "", default=None)
    if newest is None or newest.type == PodGroupConditionType.SCHEDULED:
        return None
    message = f"PodGroup {job.metadata.namespace}:{job.metadata.name} {newest.type.lower()}, reason: {newest.message}"
    return Notice("Warning", JobEventReason.POD_GROUP_PENDING, message)
