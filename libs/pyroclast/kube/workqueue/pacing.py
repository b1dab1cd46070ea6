"""How often a status may be written: changes that follow each other closely go out together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["LONGEST", "SHORTEST", "Pace"]

SHORTEST: Final = 0.2
"""Seconds between two writes of a status that has been at rest."""
LONGEST: Final = 2.0
"""Seconds between two writes of one that changes all the time."""


class Pace:
    """The pace of one object. Each write that has to wait for its turn doubles the interval; a rest of two intervals makes it
    short again.

    `clock` counts seconds; any origin will do.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._last = float("-inf")
        self._interval = SHORTEST
        self._waited = False

    def wait(self) -> float:
        """Seconds until the next write may go out; 0: now."""
        left = self._last + self._interval - self.clock()
        self._waited = self._waited or left > 0
        return max(0.0, left)

    def written(self) -> None:
        """A write went out."""
        now = self.clock()
        if self._waited:
            self._interval = min(self._interval * 2, LONGEST)
        elif now - self._last > 2 * self._interval:
            self._interval = SHORTEST
        self._last = now
        self._waited = False
