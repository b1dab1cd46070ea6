"""The API server's wall clock, read off the dates of its answers.

Deadlines are worked out from what the server stamped, and replicas take over from each other: all of them count by its clock,
which ours may differ from by minutes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Final

import structlog

__all__ = ["ServerClock"]

log = structlog.get_logger()

_TOLERANCE: Final = 3.0
"""Seconds by which the clocks may differ before it counts: dates are cut to seconds, and answers take their time."""

_PERIOD: Final = 10.0
"""Seconds between two looks at a date: reading it costs as much as a small request."""


class ServerClock:
    """Our clock, put right where it differs from the server's.

    Args:
        now: seconds since the epoch by our clock.
        clock: seconds, never set back.
    """

    def __init__(self, now: Callable[[], float] = time.time, clock: Callable[[], float] = time.monotonic) -> None:
        self._now, self._clock = now, clock
        self._offset = 0.0
        self._next = float("-inf")

    def now(self) -> float:
        """Seconds since the epoch by the clock of the API server."""
        return self._now() + self._offset

    def answered(self, date: str) -> None:
        """The server has just answered at `date` (the header as it came; empty when there was none)."""
        if not date or self._clock() < self._next:
            return
        self._next = self._clock() + _PERIOD
        try:
            sample = parsedate_to_datetime(date).timestamp() + 0.5 - self._now()
        except ValueError:
            return  # not the date of an API server: our clock stands
        if abs(sample - self._offset) <= _TOLERANCE:
            return
        self._offset = sample if abs(sample) > _TOLERANCE else 0.0
        log.warning("api_server.clock_differs", seconds=round(self._offset, 1))
