"""What a Job's object tells: its phase, its counts and why it waits. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any, Final

from pyroclast.views.explanation import explanation_lines
from pyroclast.views.waiting_causes import WaitingCause, is_waiting, waiting_cause
from pyroclast_client.cards import card

__all__ = ["FINISHED", "Explanation", "JobStatus", "explanation_of", "status_of"]

FINISHED: Final = frozenset({"Completed", "Failed", "Aborted", "Terminated"})
"""Phases in which nothing runs and nothing will, unless somebody resumes an Aborted Job."""


@dataclass(frozen=True, slots=True)
class JobStatus:
    """The status of a Job. Counts are of pods; `restarts` counts how often the Job, or a pod of it, was started again."""

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
    """Why a Job waits; `str()` of it is what `vcctl explain` prints.

    Attributes:
        job: NAMESPACE/NAME.
        code: one of the codes of the documentation; empty for a Job that does not wait.
        never: waiting alone does not help.
        document: all of it: what it asks for, who is before it, who has what is short. Empty where only the cause was read.
    """

    job: str
    queue: str
    phase: str
    code: str
    sentence: str
    never: bool = False
    document: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def summary(self) -> str:
        """One sentence."""
        if not self.code:
            return f"{self.job} in queue {self.queue}: {self.sentence}"
        when = "never" if self.never else "not now"
        return f"{self.job} waits in queue {self.queue}: {self.code}, {when}: {self.sentence.removeprefix(f'{when}: ')}"

    def _repr_html_(self) -> str:
        return card("Job", self.job, self.phase, f"<pre>{escape(str(self))}</pre>")

    def __str__(self) -> str:
        return "\n".join(explanation_lines(self.document)) if self.document else self.summary


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


def explanation_of(
    job: Mapping[str, Any], cause: WaitingCause | None = None, document: Mapping[str, Any] | None = None
) -> Explanation:
    """Why the Job waits: `cause`, or what the Job alone tells where only the Job was read."""
    phase, metadata = status_of(job).phase, job["metadata"]
    name = f"{metadata.get('namespace', '')}/{metadata['name']}"
    queue = str((job.get("spec") or {}).get("queue") or "default")
    if not is_waiting(job):
        return Explanation(name, queue, phase, "", f"it is {phase} and does not wait", document=document or {})
    cause = cause or waiting_cause(job, None)
    return Explanation(name, queue, phase, cause.code, cause.sentence, cause.is_final, document or {})
