"""A token bucket: a burst of requests at once, then a fixed rate per second."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field


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
