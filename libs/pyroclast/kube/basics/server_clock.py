"""The API server's wall clock, computed from the dates of its responses.

Deadlines are computed from timestamps of the API server, and one replica continues the work of another. So all replicas use the
clock of the API server, from which the local clock may differ by minutes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Final

import structlog

log = structlog.get_logger()

_TOLERANCE: Final = 3.0
"""Seconds by which the clocks may differ without a correction: dates have whole seconds, and a response takes time."""

_PERIOD: Final = 10.0
"""Seconds between two readings of a date, because parsing a date costs as much as a small request."""


class ServerClock:
    """The local clock, corrected by its difference from the API server's clock.

    Args:
        now: returns seconds since the epoch by the local clock.
        clock: returns seconds of a monotonic clock.
    """

    def __init__(self, now: Callable[[], float] = time.time, clock: Callable[[], float] = time.monotonic) -> None:
        self._now, self._clock = now, clock
        self._offset = 0.0
        self._next = float("-inf")

    def now(self) -> float:
        """Return seconds since the epoch by the clock of the API server."""
        return self._now() + self._offset

    def answered(self, date: str) -> None:
        """Take the `Date` header of a response that has just arrived into account; `date` is empty without the header."""
        if not date or self._clock() < self._next:
            return
        self._next = self._clock() + _PERIOD
        try:
            sample = parsedate_to_datetime(date).timestamp() + 0.5 - self._now()
        except ValueError:
            return  # this is no date of an API server: the correction stays
        if abs(sample - self._offset) <= _TOLERANCE:
            return
        self._offset = sample if abs(sample) > _TOLERANCE else 0.0
        log.warning("api_server.clock_differs", seconds=round(self._offset, 1))
