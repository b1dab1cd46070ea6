"""When a failed request may be sent again, and how long to wait before: pure."""

from __future__ import annotations

from enum import Enum
from typing import Final

from pyroclast.kube.basics.backoff import Backoff
from pyroclast.kube.basics.errors import ConnectionFailed, KubeError, ServerError, TooManyRequests

__all__ = ["LONGEST_ASKED", "MAX_ATTEMPTS", "Repeat", "pause_before_retry"]

MAX_ATTEMPTS: Final = 10  # the deadline normally ends it first; this bounds a server that fails at once
LONGEST_ASKED: Final = 5.0  # seconds: a server that refuses many at once asks all for half a minute, and idles meanwhile


class Repeat(Enum):
    """What sending a request twice would do, or that it must not be."""

    HARMLESS = "harmless"
    """The same as sending it once, or an error that tells the caller (AlreadyExists, NotFound, Conflict)."""
    DOUBLES = "doubles"
    """It would be done twice: a create with generateName, a JSON patch that appends."""
    NEVER = "never"
    """It is sent once: the caller wants to know at once how it went."""


def pause_before_retry(error: KubeError, repeat: Repeat, backoff: Backoff) -> float | None:
    """Seconds to wait before the same request is sent again; None when it must not be.

    Who was told how long to wait comes some time after that, since all others who were told the same come then.
    """
    if repeat is Repeat.NEVER:
        return None
    match error:
        case TooManyRequests():
            # Without Retry-After the server means no, not later: an eviction that a disruption budget forbids.
            return None if error.retry_after is None else _asked(error.retry_after) + backoff.next()
        case ConnectionFailed(sent=False):
            return backoff.next()
        case ConnectionFailed():
            return backoff.next() if repeat is Repeat.HARMLESS else None
        case ServerError():
            if repeat is Repeat.DOUBLES or (error.status == 500 and not error.reason):
                return None  # a 500 without reason is how the API server refuses some malformed requests
            return _asked(error.retry_after or 0.0) + backoff.next()
        case _:
            return None


def _asked(seconds: float) -> float:
    return min(seconds, LONGEST_ASKED)
