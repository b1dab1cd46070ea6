"""The clock of the event loop, and deadlines by this clock: a chain of calls shares one deadline."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass


def loop_time() -> float:
    """Return the time of the running event loop, in seconds. The loop uses this clock for its sleeps and timers."""
    return asyncio.get_running_loop().time()


@dataclass(frozen=True, slots=True)
class Deadline:
    """A deadline. `at`: a time of the running event loop's clock, in seconds."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """Return the deadline `seconds` from now."""
        return cls(loop_time() + seconds)

    def left(self) -> float:
        """Return the remaining seconds; 0 when the deadline has passed."""
        return max(0.0, self.at - loop_time())
