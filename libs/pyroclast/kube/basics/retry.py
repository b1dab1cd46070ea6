"""When a failed request may be sent again, how long to wait before, and how many requests may be sent per second."""

from __future__ import annotations

import asyncio
import math
import random
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from pyroclast.kube.basics.errors import ConnectionFailed, KubeError, ServerError, TooManyRequests
from pyroclast.resources.backoff import Backoff


@dataclass(slots=True)
class TokenBucket:
    """Has at most `burst` tokens and gains `rate` tokens per second. Times are seconds of a monotonic clock."""

    rate: float
    burst: float
    _tokens: float = field(init=False)
    _at: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self._tokens = self.burst

    def take(self, now: float) -> bool:
        """Take a token if one is available at `now`; return whether a token was taken."""
        self._fill(now)
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def reserve(self, now: float) -> float:
        """Take a token even if none is available at `now`; return the seconds until the token becomes available."""
        self._fill(now)
        self._tokens -= 1.0
        return 0.0 if self._tokens >= 0.0 else -self._tokens / self.rate

    def give_back(self) -> None:
        """Undo a `reserve` whose token was not used."""
        self._tokens += 1.0

    async def wait(self, at_most: float = math.inf) -> bool:
        """Take a token, and wait until the token is available, in the order of the calls.

        Return False at once when the wait would exceed `at_most` seconds.
        """
        delay = self.reserve(asyncio.get_running_loop().time())
        if delay <= 0.0:
            return True
        if delay > at_most:
            self.give_back()
            return False
        try:
            await asyncio.sleep(delay)
        except asyncio.CancelledError:
            self.give_back()  # otherwise a cancelled caller would delay the callers behind it
            raise
        return True

    def _fill(self, now: float) -> None:
        self._tokens = min(self.burst, self._tokens + max(0.0, now - self._at) * self.rate)
        self._at = max(self._at, now)


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
