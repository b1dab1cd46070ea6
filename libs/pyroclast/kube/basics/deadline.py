"""The clock of the event loop, and a time of it by which something has to be done: a chain of calls spends it together."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

__all__ = ["Deadline", "loop_time"]


def loop_time() -> float:
    """The time of the running event loop, in seconds: by this clock it sleeps and calls later."""
    return asyncio.get_running_loop().time()


@dataclass(frozen=True, slots=True)
class Deadline:
    """`at` is a time of the running event loop's clock, in seconds."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """The deadline so many seconds from now."""
        return cls(loop_time() + seconds)

    def left(self) -> float:
        """Seconds that remain; 0 when it has passed."""
        return max(0.0, self.at - loop_time())
