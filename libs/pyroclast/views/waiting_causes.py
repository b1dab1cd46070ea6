"""Why a Job waits, from the Job and its PodGroup: the code, the sentence, and since when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyroclast.api import waiting_reasons as pending
from pyroclast.api.enums import JobPhase, JobReason
from pyroclast.api.waiting_codes import says_never
from pyroclast.api.waiting_reasons import PendingReason

WAITS: Final = "waits: "
"""The beginning of a Job's message that says why the Job waits."""

_BESIDE: Final = f"; {WAITS}"

_WAITING_PHASES: Final = frozenset({JobPhase.PENDING, JobPhase.ABORTED, JobPhase.ABORTING, ""})


@dataclass(frozen=True, slots=True)
class WaitingCause:
    """The cause for which a Job waits. `sentence` does not contain the code.

    `is_final`: whether waiting alone does not help. `since`: when the cause began, as an API timestamp.
    """

    code: PendingReason
    sentence: str
    since: str
    is_final: bool = False


def is_waiting(job: Mapping[str, Any]) -> bool:
    """Whether a Job has not started, or was suspended."""
    return _state(job).get("phase", "") in _WAITING_PHASES


def waiting_cause(job: Mapping[str, Any], group: Mapping[str, Any] | None, *, absence: str = "") -> WaitingCause:
    """Return the cause of the earliest stage.

    A code in the objects is used as it is; without a code, the cause follows from what is missing. `absence`: why no scheduler
    places the pods of the Job; empty when a scheduler does, or when that is unknown.
    """
    state, created = _state(job), job["metadata"].get("creationTimestamp", "")
    since = state.get("lastTransitionTime") or created
    phase, message = state.get("phase", ""), state.get("message", "")
    if phase in {JobPhase.ABORTED, JobPhase.ABORTING}:
        return WaitingCause(PendingReason.SUSPENDED, f"it was suspended: {message}" if message else "it was suspended", since)
    if state.get("reason") == JobReason.VOLUME_CLAIM_NOT_FOUND:
        return WaitingCause(PendingReason.CLAIM_MISSING, message, since)
    told = _coded(message.removeprefix(WAITS), since) if message.startswith(WAITS) else None
    is_placed = (group.get("status") or {}).get("phase") == "Running" if group is not None else False
    if absence and not is_placed and (told is None or told.code is not PendingReason.PODS_REFUSED):
        return WaitingCause(PendingReason.NO_SCHEDULER, absence, created)
    if told is not None:
        return told
    condition = _condition(group)
    if condition is not None:
        return _coded(pending.summary_of(condition.get("message", "")), condition.get("lastTransitionTime") or since)
    if is_placed:
        return WaitingCause(PendingReason.STARTING, _starting(job), since)
    return WaitingCause(PendingReason.NOT_EXAMINED, "the scheduler has not looked at it since it came or changed", since)


def running_cause(job: Mapping[str, Any]) -> WaitingCause | None:
    """Return the problem of a running Job: its containers crash, or further pods are refused; None when there is no problem."""
    state = _state(job)
    message = state.get("message", "").partition(_BESIDE)[2] if state.get("phase") == JobPhase.RUNNING else ""
    return _coded(message, state.get("lastTransitionTime") or "") if message else None


def _coded(message: str, since: str) -> WaitingCause:
    code, _, sentence = message.partition(": ")
    if code not in set(PendingReason):
        return WaitingCause(PendingReason.PODS_REFUSED, message, since)
    return WaitingCause(PendingReason(code), sentence, since, is_final=says_never(sentence))


def _starting(job: Mapping[str, Any]) -> str:
    """Return how many pods of the Job run. A Job is Running once as many pods run as its gang needs."""
    running = int((job.get("status") or {}).get("running") or 0)
    total = sum(int(task.get("replicas", 1)) for task in (job.get("spec") or {}).get("tasks") or ())
    return f"its pods have their nodes, and {running} of {total} {'runs' if running == 1 else 'run'}: containers are starting"


def _condition(group: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    conditions = ((group or {}).get("status") or {}).get("conditions") or ()
    known = set(PendingReason)
    return next(
        (each for each in conditions if each.get("status") == "True" and pending.reason_of(each.get("message", "")) in known),
        None,
    )


def _state(job: Mapping[str, Any]) -> Mapping[str, Any]:
    return (job.get("status") or {}).get("state") or {}
