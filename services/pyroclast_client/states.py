"""What a Job's object tells: its phase, its counts and why it waits. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyroclast.api import pending
from pyroclast.api.pending import PendingReason

__all__ = ["FINISHED", "Explanation", "JobStatus", "explanation_of", "status_of"]

FINISHED: Final = frozenset({"Completed", "Failed", "Aborted", "Terminated"})
"""Phases in which nothing runs and nothing will, unless somebody resumes an Aborted Job."""

_WAITS: Final = "waits: "
_NEVER: Final = "never"


@dataclass(frozen=True, slots=True)
class JobStatus:
    """The status of a Job. Counts are of pods; `restarts` counts how often all pods were taken away."""

    phase: str
    reason: str = ""
    message: str = ""
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    restarts: int = 0

    @property
    def is_finished(self) -> bool:
        """Whether the Job has ended."""
        return self.phase in FINISHED


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a Job waits. `code` is one of the codes of the documentation, empty for a Job that does not wait.

    `never`: waiting alone does not help.
    """

    job: str
    queue: str
    phase: str
    code: str
    sentence: str
    never: bool = False

    def __str__(self) -> str:
        if not self.code:
            return f"{self.job} in queue {self.queue}: {self.sentence}"
        when = "never" if self.never else "not now"
        return f"{self.job} waits in queue {self.queue}: {self.code}, {when}: {self.sentence.removeprefix(f'{when}: ')}"


def status_of(job: Mapping[str, Any]) -> JobStatus:
    """The status of the Job that the API server shows; phase Pending before the controller has written any."""
    status = job.get("status") or {}
    state = status.get("state") or {}
    return JobStatus(
        phase=str(state.get("phase") or "Pending"),
        reason=str(state.get("reason") or ""),
        message=str(state.get("message") or ""),
        restarts=int(status.get("retryCount") or 0),
        **{name: int(status.get(name) or 0) for name in ("pending", "running", "succeeded", "failed")},
    )


def explanation_of(job: Mapping[str, Any], group: Mapping[str, Any] | None) -> Explanation:
    """Why the Job waits, by its own message, else by the conditions of its PodGroup."""
    status, metadata = status_of(job), job["metadata"]
    name = f"{metadata.get('namespace', '')}/{metadata['name']}"
    queue = str((job.get("spec") or {}).get("queue") or "default")
    if status.phase in {"Aborted", "Aborting"}:
        told = f"it was suspended: {status.message}" if status.message else "it was suspended"
        return Explanation(name, queue, status.phase, "Suspended", told)
    if status.phase != "Pending":
        return Explanation(name, queue, status.phase, "", f"it is {status.phase} and does not wait")
    told = status.message.removeprefix(_WAITS) if status.message.startswith(_WAITS) else _condition(group)
    code, _, sentence = told.partition(": ")
    if code in set(PendingReason):
        return Explanation(name, queue, status.phase, code, sentence, never=sentence.startswith(_NEVER))
    if status.message and status.message.startswith(_WAITS):
        return Explanation(name, queue, status.phase, "PodsRefused", told)
    if status.reason == "VolumeClaimNotFound":
        return Explanation(name, queue, status.phase, "ClaimMissing", status.message)
    return Explanation(name, queue, status.phase, "NotExamined", "the scheduler has not looked at it since it came or changed")


def _condition(group: Mapping[str, Any] | None) -> str:
    conditions = ((group or {}).get("status") or {}).get("conditions") or ()
    messages = (str(each.get("message", "")) for each in conditions if each.get("status") == "True")
    return next((pending.summary_of(message) for message in messages if pending.reason_of(message) in set(PendingReason)), "")
