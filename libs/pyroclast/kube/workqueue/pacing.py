"""Limits how often a status is written: changes that follow closely are written together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

SHORTEST: Final = 0.2
"""Seconds between two writes of a status that rarely changes."""
LONGEST: Final = 2.0
"""Seconds between two writes of a status that changes all the time."""


class Pace:
    """The write interval of one object's status. Each delayed write doubles the interval; two intervals without a change reset
    it.

    `clock` returns seconds of any clock.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._last = float("-inf")
        self._interval = SHORTEST
        self._waited = False

    def wait(self) -> float:
        """Return the seconds until the next write is allowed; 0 when it is allowed now."""
        left = self._last + self._interval - self.clock()
        self._waited = self._waited or left > 0
        return max(0.0, left)

    def written(self) -> None:
        """Record that the status was written now, and adapt the write interval."""
        now = self.clock()
        if self._waited:
            self._interval = min(self._interval * 2, LONGEST)
        elif now - self._last > 2 * self._interval:
            self._interval = SHORTEST
        self._last = now
        self._waited = False
