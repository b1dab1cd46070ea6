"""Long work on the event loop in short pieces, so that watches, Leases and health keep their pace."""

from __future__ import annotations

import asyncio
import time
from typing import Final

__all__ = ["Turn"]

TURN_SECONDS: Final = 0.005
"""A tenth of what the loop may be held for: several that have much to do take their turns one after the other."""


class Turn:
    """How long one piece of work may have the event loop: asked between two steps, `if turn.is_over: await turn.next()`."""

    def __init__(self) -> None:
        self._clock = time.perf_counter  # of the real time that the work takes, whatever the loop counts
        self.begin()

    def begin(self) -> None:
        """It begins now: until here somebody else had the loop."""
        self._until = self._clock() + TURN_SECONDS

    @property
    def is_over(self) -> bool:
        """Whether others should have a turn."""
        return self._clock() >= self._until

    async def next(self) -> None:
        """Let them, and begin another."""
        await asyncio.sleep(0)
        self.begin()
