"""The exceptions of the client, as one tree. Each message names the fault, the object and the remedy.

PyroclastError
├── NoCluster         no API server is configured, or it does not answer
├── Forbidden         the account lacks a right; `verb`, `resource`, `rule`
├── NotFound          the object does not exist
├── Rejected          the object breaks rules; `causes` with field paths
├── NeverFits         the Job can never start; `explanation`
├── JobFailed         `job`, `phase`, `reason`, `index`, `exit_code`, `log_tail`
│   └── Evicted       a pod was evicted and the Job did not continue
├── TaskError         the function raised; `__cause__` and `remote_traceback`
├── TimedOut          the timeout of the caller, or of the call itself, is over
├── ResultTooLarge    the result exceeds a limit and there is no store
├── ResultGone        the result, or the pod that had it, no longer exists
├── ForgedResult      the result does not carry the seal of its Job
├── VersionMismatch   Python or a package differs between the client and the image
├── JobReplaced       another Job has the name now
├── FlowError         a flow that cannot be compiled
└── Usage             an invalid call of the client
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class PyroclastWarning(UserWarning):
    """Warns about a valid value that is probably a mistake, or informs a user whose call waits."""


class PyroclastError(Exception):
    """The base class of all exceptions of the client."""


class NoCluster(PyroclastError):
    """No API server is configured, or the configured one does not answer."""


class Forbidden(PyroclastError):
    """The account lacks a right. `rule` is the RBAC rule that a Role needs to grant the right."""

    def __init__(self, message: str, *, verb: str = "", resource: str = "", rule: str = "") -> None:
        super().__init__(message)
        self.verb = verb
        self.resource = resource
        self.rule = rule


class NotFound(PyroclastError):
    """The object does not exist."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One fault of an object: the path of the faulty field, and a message."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class Rejected(PyroclastError):
    """The object breaks rules of the client or of the server. `causes` names every faulty field."""

    def __init__(self, message: str, causes: Sequence[Cause] = ()) -> None:
        super().__init__(message)
        self.causes = tuple(causes)


class NeverFits(PyroclastError):
    """The Job can never start, however long it waits. `explanation` has the reason."""

    def __init__(self, message: str, explanation: object = None) -> None:
        super().__init__(message)
        self.explanation = explanation


class JobFailed(PyroclastError):
    """A Job that did not complete.

    Attributes:
        job: NAMESPACE/NAME of the Job.
        phase: the final phase; "Deleted" when the Job was deleted before its end.
        reason: the one-word reason of the phase.
        index: the index of the first failed pod. None when no pod is known to have failed.
        exit_code: the exit code of that pod.
        log_tail: the last lines of that pod's log.
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
    """A pod was evicted, and no policy of the Job restarted it."""


class TaskError(PyroclastError):
    """The function raised an exception.

    The exception is `__cause__` when its class can be imported in this process. The traceback is always available as text.
    """

    def __init__(self, message: str, *, index: int = 0, remote_traceback: str = "") -> None:
        super().__init__(message)
        self.index = index
        self.remote_traceback = remote_traceback

    def __str__(self) -> str:
        return f"{super().__str__()}\n\n{self.remote_traceback}".rstrip()


class TimedOut(PyroclastError, TimeoutError):
    """The timeout of the caller is over, and the Job continues; or the call ran longer than the `timeout` of its task."""


class ResultTooLarge(PyroclastError):
    """The result exceeds a limit, and no store is configured for it."""


class ResultGone(PyroclastError):
    """The result, or the pod that had it, no longer exists."""


class ForgedResult(PyroclastError):
    """The result does not carry the seal of its Job, index and pod. The client did not unpickle it."""


class VersionMismatch(PyroclastError):
    """Python or a package differs between the client and the image, so that the function could not be loaded in the pod."""


class JobReplaced(PyroclastError):
    """The Job of the handle was deleted, and another Job has its name now."""


class FlowError(PyroclastError):
    """The flow cannot be compiled. The message names the file, the line, and the construct to use."""


class Usage(PyroclastError, ValueError):
    """An invalid call of the client. The message says what is valid."""
