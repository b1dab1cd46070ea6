"""The reason and the message in `status.state` of a Job that waits."""

from __future__ import annotations

from typing import Final

from pyroclast.api import waiting_reasons as pending
from pyroclast.api.enums import JobPhase, JobReason, PodGroupConditionType, QueueState
from pyroclast.api.records import JobStatus, PodGroup
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast.lifecycle.gang import podgroups, volumes
from pyroclast.lifecycle.job import status
from pyroclast.lifecycle.job.absent_scheduler import absent_scheduler
from pyroclast.lifecycle.job.facts import JobFacts
from pyroclast.lifecycle.job.stuck_containers import stuck
from pyroclast.lifecycle.job.unexamined import unexamined

_PREFIX: Final = "waits: "
"""The prefix of the messages of this module. By this prefix, `explained` finds the messages that it must remove."""

_CURRENT: Final = frozenset(PendingReason)
"""The reasons of conditions that are True only while they apply. Conditions with other reasons stay True afterwards."""

_BESIDE: Final = "; waits: "
"""The separator between the message of the phase of a running Job and a message of this module."""


def explained(facts: JobFacts, following: JobStatus) -> JobStatus:
    """Return `following` with the reason and the message for which the Job waits; an outdated message is removed."""
    state = following.state
    if state.phase is JobPhase.RUNNING:
        return _beside_running(facts, following)
    cause = _cause(facts) if state.phase is JobPhase.PENDING else None
    if cause is not None:
        return status.entering(following, state.phase, *cause)
    said = state.reason == JobReason.VOLUME_CLAIM_NOT_FOUND or state.message.startswith(_PREFIX)
    return status.entering(following, state.phase, "", "") if said else following


def _beside_running(facts: JobFacts, following: JobStatus) -> JobStatus:
    """Return the status of a running Job with refusals and stuck containers after the message of its phase."""
    before = following.state.message.partition(_BESIDE)[0]
    cause = facts.memory.refused or stuck(facts.pods.by_name.values())
    message = f"{before}{_BESIDE}{cause}" if cause else before
    return status.entering(following, following.state.phase, following.state.reason, message)


def closed_queue(facts: JobFacts) -> str:
    """Return `QueueClosed: …` when the queue is closed or closing and the gang is not admitted; else empty."""
    state = facts.queue.status.state if facts.queue else None
    if state not in (QueueState.CLOSED, QueueState.CLOSING) or podgroups.is_admitted(facts.group):
        return ""
    return f"{PendingReason.QUEUE_CLOSED}: {pending.closed_queue(facts.job.spec.queue, state)}"


def missing_claim(name: str) -> str:
    """Return the message about a missing PersistentVolumeClaim, in the words of Volcano."""
    return f"pvc {name} is not found, the job will be in the Pending state until the PVC is created"


def newest_condition(group: PodGroup | None) -> tuple[str, str] | None:
    """Return the type and the message of the newest condition of a gang that is not placed.

    None when the gang is placed or has no condition.
    """
    conditions = [condition for condition in group.status.conditions if condition.status == "True"] if group else []
    current = next((condition for condition in conditions if condition.reason in _CURRENT), None)
    if current is not None:
        return current.type, current.message
    newest = max(conditions, key=lambda condition: condition.last_transition_time or "", default=None)
    if newest is None or newest.type == PodGroupConditionType.SCHEDULED:
        return None
    return newest.type, newest.message


def _cause(facts: JobFacts) -> tuple[JobReason, str] | None:
    """Return the reason and the message for which a pending Job waits; None when no cause is known.

    The first cause that applies is reported. The order is: objects cannot be created, the gang cannot be placed, containers do
    not run.
    """
    if awaited := volumes.examine(facts.job, facts.claims).awaited:
        return JobReason.VOLUME_CLAIM_NOT_FOUND, missing_claim(awaited[0])
    placed = newest_condition(facts.group)
    causes = (
        "" if facts.queue else f"{PendingReason.LEFT_OUT}: {pending.missing_queue(facts.job.spec.queue)}",
        facts.memory.refused,
        absent_scheduler(facts),
        closed_queue(facts),
        pending.summary_of(placed[1]) if placed else "",
        stuck(facts.pods.by_name.values()),
        unexamined(facts),
    )
    message = next(filter(None, causes), "")
    return (JobReason.NOT_ENOUGH_PODS, _PREFIX + message) if message else None
