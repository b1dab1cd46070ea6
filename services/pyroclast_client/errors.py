"""What can go wrong, as one exception tree. Each message says what, which object, and what to do.

PyroclastError
├── NoCluster         no API server is configured, or it does not answer
├── Forbidden         the account lacks a right; `verb`, `resource`, `rule`
├── NotFound          no object of that name
├── Rejected          an object that breaks rules; `causes` with field paths
├── NeverFits         the Job cannot start however long it waits; `explanation`
├── JobFailed         `job`, `phase`, `reason`, `index`, `exit_code`, `log_tail`
│   └── Evicted       a pod was taken away and the Job did not go on
├── TaskError         the function raised; `__cause__` and `remote_traceback`
├── TimedOut          the time that the caller gave is over
├── ResultTooLarge    the result exceeds a limit and there is no store
├── ResultGone        the result, or the pod that had it, is not there any more
├── ForgedResult      the result does not carry the seal of its Job
├── VersionMismatch   Python or a package differs between here and the image
├── JobReplaced       another Job has the name now
├── FlowError         a flow that cannot be compiled
└── Usage             a call that makes no sense
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = [
    "Cause",
    "Evicted",
    "FlowError",
    "Forbidden",
    "ForgedResult",
    "JobFailed",
    "JobReplaced",
    "NeverFits",
    "NoCluster",
    "NotFound",
    "PyroclastError",
    "PyroclastWarning",
    "Rejected",
    "ResultGone",
    "ResultTooLarge",
    "TaskError",
    "TimedOut",
    "Usage",
    "VersionMismatch",
]


class PyroclastWarning(UserWarning):
    """What is legal but surely not meant, and what a person who waits should know."""


class PyroclastError(Exception):
    """The root of the tree."""


class NoCluster(PyroclastError):
    """No API server is configured, or the configured one does not answer."""


class Forbidden(PyroclastError):
    """The account lacks a right. `rule` is what a Role would have to say."""

    def __init__(self, message: str, *, verb: str = "", resource: str = "", rule: str = "") -> None:
        super().__init__(message)
        self.verb = verb
        self.resource = resource
        self.rule = rule


class NotFound(PyroclastError):
    """There is no object of that name."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One fault: the path of the field, and what is wrong with it."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class Rejected(PyroclastError):
    """An object that breaks rules, of ours or of the server's. `causes` names every field at fault."""

    def __init__(self, message: str, causes: Sequence[Cause] = ()) -> None:
        super().__init__(message)
        self.causes = tuple(causes)


class NeverFits(PyroclastError):
    """The Job cannot start however long it waits; `explanation` says why."""

    def __init__(self, message: str, explanation: object = None) -> None:
        super().__init__(message)
        self.explanation = explanation


class JobFailed(PyroclastError):
    """A Job that did not complete.

    Attributes:
        job: NAMESPACE/NAME.
        phase: the final phase; "Deleted" when the Job went before its end.
        reason: the one-word reason of the phase.
        index: the index of the first pod that failed; None when no pod tells.
        exit_code: of that pod.
        log_tail: the last lines of that pod.
    """

    def __init__(
        self,
        message: str,
        *,
        job: str = "",
        phase: str = "",
        reason: str = "",
        index: int | None = None,
        exit_code: int | None = None,
        log_tail: str = "",
    ) -> None:
        super().__init__(message)
        self.job = job
        self.phase = phase
        self.reason = reason
        self.index = index
        self.exit_code = exit_code
        self.log_tail = log_tail


class Evicted(JobFailed):
    """A pod was taken away, and the policies of the Job did not bring it back."""


class TaskError(PyroclastError):
    """The function raised. The exception is `__cause__` where its class is known here; its traceback is text in any case."""

    def __init__(self, message: str, *, index: int = 0, remote_traceback: str = "") -> None:
        super().__init__(message)
        self.index = index
        self.remote_traceback = remote_traceback

    def __str__(self) -> str:
        return f"{super().__str__()}\n\n{self.remote_traceback}".rstrip()


class TimedOut(PyroclastError, TimeoutError):
    """The time that the caller gave is over. The Job goes on."""


class ResultTooLarge(PyroclastError):
    """The result exceeds a limit, and there is no store to put it into."""


class ResultGone(PyroclastError):
    """The result, or the pod that had it, is not there any more."""


class ForgedResult(PyroclastError):
    """A result that does not carry the seal of its Job, index and pod. The client did not unpickle it."""


class VersionMismatch(PyroclastError):
    """Python or a package differs between here and the image, so that the function could not be loaded there."""


class JobReplaced(PyroclastError):
    """Another Job has the name now: the one that was meant was deleted."""


class FlowError(PyroclastError):
    """A flow that cannot be compiled; the message names file, line and the construct to use."""


class Usage(PyroclastError, ValueError):
    """A call that makes no sense; the message says what would."""
