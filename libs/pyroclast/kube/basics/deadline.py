"""A point in time by which something has to be done, passed along a chain of calls and spent by all of them together."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

__all__ = ["Deadline"]


@dataclass(frozen=True, slots=True)
class Deadline:
    """`at` is a time of the running event loop's clock, in seconds."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """The deadline so many seconds from now."""
        return cls(asyncio.get_running_loop().time() + seconds)

    def left(self) -> float:
        """Seconds that remain; 0 when it has passed."""
        return max(0.0, self.at - asyncio.get_running_loop().time())
