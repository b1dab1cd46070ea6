"""The policies of a Job: which action an occurrence triggers, and after which delay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyroclast.api.enums import BusEvent
from pyroclast.api.records import Job, LifecyclePolicy
from pyroclast.lifecycle.job.job_events import Occurrence
from pyroclast.lifecycle.times import duration_seconds


@dataclass(frozen=True, slots=True)
class Response:
    """The action that a policy triggers for an occurrence, `delay` seconds after the occurrence."""

    occurrence: Occurrence
    action: str
    delay: float = 0.0

    @property
    def due(self) -> float:
        """The time at which the action is due, in seconds since the epoch."""
        return self.occurrence.at + self.delay


def respond(job: Job, occurrence: Occurrence) -> Response | None:
    """Return the response of the first matching policy of the task, else of the Job; None when no policy matches.

    A policy for `PodPending` without a timeout is ignored, because every pod is pending at first.
    """
    if occurrence.event.is_internal or occurrence.version < job.status.version:
        return None
    task = next((task for task in job.spec.tasks if task.name == occurrence.task), None) if occurrence.task else None
    policy = (_match(task.policies, occurrence) if task else None) or _match(job.spec.policies, occurrence)
    return Response(occurrence, policy.action, _delay(policy)) if policy else None


def _match(policies: Sequence[LifecyclePolicy], occurrence: Occurrence) -> LifecyclePolicy | None:
    return next((policy for policy in policies if _matches(policy, occurrence)), None)


def _matches(policy: LifecyclePolicy, occurrence: Occurrence) -> bool:
    events = {*policy.events, policy.event}
    if (occurrence.event in events or BusEvent.ANY in events) and (
        occurrence.event is not BusEvent.POD_PENDING or policy.timeout is not None
    ):
        return True
    return policy.exit_code is not None and policy.exit_code == occurrence.exit_code


def _delay(policy: LifecyclePolicy) -> float:
    """Return the timeout of `policy` in seconds; 0 without a timeout, or with an invalid timeout, which admission rejects."""
    if policy.timeout is None:
        return 0.0
    try:
        return max(0.0, duration_seconds(policy.timeout))
    except ValueError:
        return 0.0
