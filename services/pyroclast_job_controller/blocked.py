"""When an effect cannot be carried out, and trying again at once will not help."""

from __future__ import annotations

from enum import Enum
from typing import Final

from pyroclast.api.enums import JobEventReason
from pyroclast.kube.basics.errors import ApiError, Forbidden, is_broken, is_terminating_namespace, is_transient
from pyroclast.lifecycle.jobplugins import PluginCrash, PluginError

__all__ = [
    "Blocked",
    "Cause",
    "NamespaceTerminating",
    "Outage",
    "TransientError",
    "explained",
    "is_quota",
    "pause_after",
    "unusable",
]


class Cause(Enum):
    """What kind of thing stops a Job; how long it waits depends on it."""

    FAULT = "fault"
    """Something is wrong with the Job, or about it: tried so often, then the Job ends."""
    OUTAGE = "outage"
    """What the API server asks before it takes an object is out of order."""
    QUOTA = "quota"
    """A quota is used up."""
    CRASH = "crash"
    """The code of a plugin fails."""
    LEFTOVER = "leftover"
    """Objects of an earlier Job are in the way."""


_PAUSES: Final = {
    Cause.FAULT: (0.005, 1000.0),
    Cause.OUTAGE: (0.1, 5.0),
    Cause.CRASH: (1.0, 300.0),
    Cause.QUOTA: (1.0, 30.0),
    Cause.LEFTOVER: (1.0, 30.0),
}
"""Seconds before the first further try, which each one doubles, and their ceiling. 15 tries after a fault take 164 s."""


def pause_after(cause: Cause, times: int) -> float:
    """Seconds until the next try, when there were so many already."""
    first, longest = _PAUSES[cause]
    return min(first * 2.0 ** min(times, 60), longest)


class Blocked(Exception):
    """Somebody or something does not let the Job get on. `reason` and the text are for the Event that tells users."""

    def __init__(self, reason: JobEventReason, message: str, cause: Cause = Cause.FAULT) -> None:
        super().__init__(message)
        self.reason, self.cause = reason, cause


class Outage(Blocked):
    """What the API server asks before it takes an object is out of order, a webhook say: nothing is wrong with the Job, which
    waits for as long as it takes.
    """

    def __init__(self, reason: JobEventReason, message: str) -> None:
        super().__init__(reason, message, Cause.OUTAGE)


class TransientError(Exception):
    """The Job has to wait for something that passes by itself: a namesake that is going."""


class NamespaceTerminating(TransientError):
    """The namespace is being deleted: nothing can be made in it any more, and soon the Job will be gone too."""

    def __init__(self) -> None:
        super().__init__("the namespace is being deleted")


def unusable(error: PluginError, prefix: str = "") -> Blocked:
    """What `error` of a plugin means for the Job."""
    cause = Cause.CRASH if isinstance(error, PluginCrash) else Cause.FAULT
    return Blocked(JobEventReason.PLUGIN_ERROR, f"{prefix}{error}", cause)


def explained(error: ApiError, reason: JobEventReason, prefix: str) -> Exception:
    """`error` as what it means for the Job; `reason` and `prefix` are for the Event, where there is one."""
    if is_terminating_namespace(error):
        return NamespaceTerminating()
    if is_broken(error):
        return Outage(reason, prefix + error.message)
    if is_transient(error):
        return error
    return Blocked(reason, prefix + error.message, Cause.QUOTA if is_quota(error) else Cause.FAULT)


def is_quota(error: ApiError) -> bool:
    """Whether a ResourceQuota leaves no room for the object; the server has no other mark for it than its words."""
    return isinstance(error, Forbidden) and "exceeded quota" in error.message
