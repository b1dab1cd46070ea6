"""When an effect cannot be carried out, and trying again at once will not help."""

from __future__ import annotations

from pyroclast.api.enums import JobEventReason
from pyroclast.kube.errors import ApiError, Conflict, Expired, KubeError, NotFound, ServerError, TooManyRequests, Unauthorized

__all__ = [
    "Hindrance",
    "NamespaceGoing",
    "Refusal",
    "Trouble",
    "explained",
    "is_broken",
    "is_terminating_namespace",
    "is_transient",
]

_TRANSIENT = (Conflict, Expired, NotFound, ServerError, TooManyRequests, Unauthorized)


class Refusal(Exception):
    """Somebody or something does not let the Job get on. `reason` and the text are for the Event that tells users."""

    def __init__(self, reason: JobEventReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Trouble(Refusal):
    """What the API server asks before it takes an object is out of order, a webhook say: nothing is wrong with the Job, which
    waits for as long as it takes.
    """


class Hindrance(Exception):
    """The Job has to wait for something that passes by itself: a namesake that is going."""


class NamespaceGoing(Hindrance):
    """The namespace is being deleted: nothing can be made in it any more, and soon the Job will be gone too."""

    def __init__(self) -> None:
        super().__init__("the namespace is being deleted")


def is_transient(error: KubeError) -> bool:
    """Whether `error` says nothing about the Job: the same request may well succeed later."""
    return not isinstance(error, ApiError) or isinstance(error, _TRANSIENT)


def is_broken(error: KubeError) -> bool:
    """Whether the API server could not ask what it has to ask: the words are for users, as nobody else may notice."""
    return isinstance(error, ServerError) and error.reason == "InternalError"


def is_terminating_namespace(error: KubeError) -> bool:
    """Whether the namespace is being deleted, so that nothing can be created in it any more."""
    causes = error.details.get("causes") if isinstance(error, ApiError) else None
    return any(isinstance(cause, dict) and cause.get("reason") == "NamespaceTerminating" for cause in causes or ())


def explained(error: ApiError, reason: JobEventReason, prefix: str) -> Exception:
    """`error` as what it means for the Job; `reason` and `prefix` are for the Event, where there is one."""
    if is_terminating_namespace(error):
        return NamespaceGoing()
    if is_broken(error):
        return Trouble(reason, prefix + error.message)
    return error if is_transient(error) else Refusal(reason, prefix + error.message)
