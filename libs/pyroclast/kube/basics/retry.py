"""Rules of retries: when a failed request may be sent again, and how long to wait before."""

from __future__ import annotations

import random
from enum import Enum
from typing import Final

from pyroclast.kube.basics.errors import ConnectionFailed, KubeError, ServerError, TooManyRequests
from pyroclast.resources.backoff import Backoff

MAX_ATTEMPTS: Final = 10  # usually the deadline ends the attempts first; this limit bounds them for a server that fails at once
LONGEST_ASKED: Final = 5.0  # seconds: an overloaded server asks all clients to wait half a minute, and would idle meanwhile


class Repeat(Enum):
    """The effect of sending a request twice, or that the request must be sent once."""

    HARMLESS = "harmless"
    """The same as sending the request once, or an error that the caller understands (AlreadyExists, NotFound, Conflict)."""
    DOUBLES = "doubles"
    """The effect happens twice: a create with generateName, a JSON patch that appends."""
    NEVER = "never"
    """The request is sent once, because the caller needs its outcome at once."""


def jittered_backoff(first: float, most: float) -> Backoff:
    """Return pauses of which each is shortened by a random part, at most a half."""
    return Backoff(first, most, jitter=lambda: 0.5 * random.random())  # noqa: S311 - not a secret


def pause_before_retry(error: KubeError, repeat: Repeat, backoff: Backoff) -> float | None:
    """Return the seconds to wait before the same request is sent again; None when it must not be sent again.

    The pause is longer than `Retry-After`, because all clients that received the same value would return at the same time.
    """
    if repeat is Repeat.NEVER:
        return None
    match error:
        case TooManyRequests():
            # Without Retry-After, the server refuses for good: for example an eviction that a disruption budget forbids.
            return None if error.retry_after is None else _asked(error.retry_after) + backoff.next()
        case ConnectionFailed(sent=False):
            return backoff.next()
        case ConnectionFailed():
            return backoff.next() if repeat is Repeat.HARMLESS else None
        case ServerError():
            if repeat is Repeat.DOUBLES or (error.status == 500 and not error.reason):
                return None  # the API server refuses some malformed requests by a 500 without reason
            return _asked(error.retry_after or 0.0) + backoff.next()
        case _:
            return None


def _asked(seconds: float) -> float:
    return min(seconds, LONGEST_ASKED)
