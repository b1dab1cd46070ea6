"""A token bucket: so many at once, then so many per second."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field

__all__ = ["TokenBucket"]


@dataclass(slots=True)
class TokenBucket:
    """Holds at most `burst` tokens and gains `rate` per second. Times are seconds of any clock that does not go back."""

    rate: float
    burst: float
    _tokens: float = field(init=False)
    _at: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self._tokens = self.burst

    def take(self, now: float) -> bool:
        """Take a token if there is one at `now`."""
        self._fill(now)
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def reserve(self, now: float) -> float:
        """Take a token even if it is still to come; the seconds after which it is there."""
        self._fill(now)
        self._tokens -= 1.0
        return 0.0 if self._tokens >= 0.0 else -self._tokens / self.rate

    def give_back(self) -> None:
        """Undo a `reserve` whose token was not used."""
        self._tokens += 1.0

    async def wait(self, at_most: float = math.inf) -> bool:
        """Take a token, waiting for it in turn; False, at once, when that would take longer than `at_most` seconds."""
        delay = self.reserve(asyncio.get_running_loop().time())
        if delay <= 0.0:
            return True
        if delay > at_most:
            self.give_back()
            return False
        try:
            await asyncio.sleep(delay)
        except asyncio.CancelledError:
            self.give_back()  # else those who gave up would slow down those who come after them
            raise
        return True

    def _fill(self, now: float) -> None:
        self._tokens = min(self.burst, self._tokens + max(0.0, now - self._at) * self.rate)
        self._at = max(self._at, now)
