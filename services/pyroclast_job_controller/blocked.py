"""Errors for an effect that cannot be carried out now, where an immediate retry would not help."""

from __future__ import annotations

from enum import Enum
from typing import Final

from pyroclast.api.enums import JobEventReason
from pyroclast.kube.basics.errors import ApiError, Forbidden, is_broken, is_terminating_namespace, is_transient
from pyroclast.lifecycle.jobplugins import PluginCrash, PluginError
from pyroclast.resources.backoff import Backoff


class Cause(Enum):
    """The type of obstacle of a Job, which determines the pause before the next try."""

    FAULT = "fault"
    """The Job or its surroundings have a fault. After a limited number of tries, the Job ends."""
    OUTAGE = "outage"
    """A webhook or another server that the API server calls is unavailable."""
    QUOTA = "quota"
    """A ResourceQuota is exhausted."""
    CRASH = "crash"
    """The code of a plugin raised an unexpected exception."""
    LEFTOVER = "leftover"
    """Objects of an earlier Job have the names of the Job's objects."""


_PAUSES: Final = {
    Cause.FAULT: Backoff(0.005, 1000.0),
    Cause.OUTAGE: Backoff(0.1, 5.0),
    Cause.CRASH: Backoff(1.0, 300.0),
    Cause.QUOTA: Backoff(1.0, 30.0),
    Cause.LEFTOVER: Backoff(1.0, 30.0),
}
"""The pauses between tries. 15 tries after a fault take 164 s."""


def pause_after(cause: Cause, times: int) -> float:
    """Return the seconds until the next try, after `times` tries."""
    return _PAUSES[cause].after(times)


class Blocked(Exception):
    """An obstacle prevents progress of the Job. `reason` and the message are for the Event that informs users."""

    def __init__(self, reason: JobEventReason, message: str, cause: Cause = Cause.FAULT) -> None:
        super().__init__(message)
        self.reason, self.cause = reason, cause


class Outage(Blocked):
    """A webhook or another server that the API server calls is unavailable. The Job has no fault and waits without limit."""

    def __init__(self, reason: JobEventReason, message: str) -> None:
        super().__init__(reason, message, Cause.OUTAGE)


class TransientError(Exception):
    """The Job must wait for a transient state to end, such as the deletion of an object with the same name."""


class NamespaceTerminating(TransientError):
    """The namespace is being deleted. No objects can be created in it, and the Job will be deleted soon."""

    def __init__(self) -> None:
        super().__init__("the namespace is being deleted")


def unusable(error: PluginError, prefix: str = "") -> Blocked:
    """Return the obstacle that an error of a plugin means for the Job."""
    cause = Cause.CRASH if isinstance(error, PluginCrash) else Cause.FAULT
    return Blocked(JobEventReason.PLUGIN_ERROR, f"{prefix}{error}", cause)


def explained(error: ApiError, reason: JobEventReason, prefix: str) -> Exception:
    """Return the exception that an API error means for the Job. `reason` and `prefix` are for an Event."""
    if is_terminating_namespace(error):
        return NamespaceTerminating()
    if is_broken(error):
        return Outage(reason, prefix + error.message)
    if is_transient(error):
        return error
    return Blocked(reason, prefix + error.message, Cause.QUOTA if is_quota(error) else Cause.FAULT)


def is_quota(error: ApiError) -> bool:
    """Return whether a ResourceQuota has no room for the object. Only the message of the server distinguishes this case."""
    return isinstance(error, Forbidden) and "exceeded quota" in error.message
