"""Why a Job waits, read from the Job and its PodGroup: the code, the sentence, and since when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyroclast.api import pending
from pyroclast.api.enums import JobPhase, JobReason
from pyroclast.api.pending import PendingReason

__all__ = ["NEVER", "NOT_EXAMINED", "WaitingCause", "is_waiting", "waiting_cause"]

NEVER: Final = "never"
SUSPENDED: Final = "Suspended"
CLAIM_MISSING: Final = "ClaimMissing"
PODS_REFUSED: Final = "PodsRefused"
NO_SCHEDULER: Final = "NoScheduler"
NOT_EXAMINED: Final = "NotExamined"
STARTING: Final = "Starting"

_WAITS: Final = "waits: "
_WAITING_PHASES: Final = frozenset({JobPhase.PENDING, JobPhase.ABORTED, JobPhase.ABORTING, ""})


@dataclass(frozen=True, slots=True)
class WaitingCause:
    """One cause. `sentence` is without the code; `is_final`: waiting alone does not help; `since`: an API timestamp."""

    code: str
    sentence: str
    since: str
    is_final: bool = False


def is_waiting(job: Mapping[str, Any]) -> bool:
    """Whether a Job has not started, or was suspended."""
    return _state(job).get("phase", "") in _WAITING_PHASES


def waiting_cause(job: Mapping[str, Any], group: Mapping[str, Any] | None, *, is_served: bool = True) -> WaitingCause:
    """The nearest cause. `is_served`: somebody leads under the name of its scheduler, or nobody knows.

    A code that stands in the objects is taken from there; the rest is worked out from what is missing.
    """
    state, created = _state(job), job["metadata"].get("creationTimestamp", "")
    since = state.get("lastTransitionTime") or created
    phase, message = state.get("phase", ""), state.get("message", "")
    if phase in {JobPhase.ABORTED, JobPhase.ABORTING}:
        return WaitingCause(SUSPENDED, f"it was suspended: {message}" if message else "it was suspended", since)
    if state.get("reason") == JobReason.VOLUME_CLAIM_NOT_FOUND:
        return WaitingCause(CLAIM_MISSING, message, since)
    if message.startswith(_WAITS):
        return _coded(message.removeprefix(_WAITS), since)
    if not is_served:
        name = (job.get("spec") or {}).get("schedulerName", "")
        return WaitingCause(NO_SCHEDULER, f'no scheduler named "{name}" is at work', created)
    condition = _condition(group)
    if condition is not None:
        return _coded(pending.summary_of(condition.get("message", "")), condition.get("lastTransitionTime") or since)
    if group is not None and (group.get("status") or {}).get("phase") == "Running":
        return WaitingCause(STARTING, "its pods have their nodes, and their containers are starting", since)
    return WaitingCause(NOT_EXAMINED, "the scheduler has not looked at it since it came or changed", since)


def _coded(message: str, since: str) -> WaitingCause:
    code, _, sentence = message.partition(": ")
    if code not in set(PendingReason):
        return WaitingCause(PODS_REFUSED, message, since)
    return WaitingCause(code, sentence, since, is_final=sentence.startswith(NEVER))


def _condition(group: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    conditions = ((group or {}).get("status") or {}).get("conditions") or ()
    known = set(PendingReason)
    return next(
        (each for each in conditions if each.get("status") == "True" and pending.reason_of(each.get("message", "")) in known),
        None,
    )


def _state(job: Mapping[str, Any]) -> Mapping[str, Any]:
    return (job.get("status") or {}).get("state") or {}
