"""The phase, the counts and the waiting reason in a Job object. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any, Final

from pyroclast.views.explanation import explanation_lines
from pyroclast.views.waiting_causes import WaitingCause, is_waiting, waiting_cause
from pyroclast_client.cards import card

FINISHED: Final = frozenset({"Completed", "Failed", "Aborted", "Terminated"})
"""The phases in which no pod runs and none will run, unless a user resumes an Aborted Job."""


@dataclass(frozen=True, slots=True)
class JobStatus:
    """The status of a Job. The counts are of pods. `restarts` counts the restarts of the Job or of its pods."""

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
    """Why a Job waits. `str()` of the object is what `vcctl explain` prints.

    Attributes:
        job: NAMESPACE/NAME of the Job.
        queue: the queue of the Job.
        phase: the phase of the Job.
        code: the documented code of the reason. Empty for a Job that does not wait.
        sentence: the reason as a sentence.
        never: whether the Job can never start by waiting alone.
        document: the requests of the Job, the jobs before it, and the users of the scarce resources. Empty when only the cause
            was read.
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
        """The reason why the Job waits, as one sentence."""
        if not self.code:
            return f"{self.job} in queue {self.queue}: {self.sentence}"
        when = "never" if self.never else "not now"
        return f"{self.job} waits in queue {self.queue}: {self.code}, {when}: {self.sentence.removeprefix(f'{when}: ')}"

    def _repr_html_(self) -> str:
        return card("Job", self.job, self.phase, f"<pre>{escape(str(self))}</pre>")

    def __str__(self) -> str:
        return "\n".join(explanation_lines(self.document)) if self.document else self.summary


def status_of(job: Mapping[str, Any]) -> JobStatus:
    """Return the status in a Job object. The phase is Pending before the controller has written a status."""
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
    """Return why the Job waits. With `cause` None, the reason is read from the Job alone."""
    phase, metadata = status_of(job).phase, job["metadata"]
    name = f"{metadata.get('namespace', '')}/{metadata['name']}"
    queue = str((job.get("spec") or {}).get("queue") or "default")
    if not is_waiting(job):
        return Explanation(name, queue, phase, "", f"it is {phase} and does not wait", document=document or {})
    cause = cause or waiting_cause(job, None)
    return Explanation(name, queue, phase, cause.code, cause.sentence, cause.is_final, document or {})
