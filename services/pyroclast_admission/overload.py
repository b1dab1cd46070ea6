"""When the service is so far behind that an honest "come again" is better than a late answer."""

from __future__ import annotations

import asyncio
from typing import Final

__all__ = ["Overload"]

SHED_ABOVE_SECONDS: Final = 2.0
"""Delay of the event loop from which requests are sent away: the API server gives up after 10 s at most, often 5."""

RECOVERED_BELOW_SECONDS: Final = 0.5
"""Delay below which they are taken again; well below the other, so that the service does not waver."""

PERIOD_SECONDS: Final = 0.1


class Overload:
    """Watches the delay of the event loop, which is how long a request waits before anybody looks at it."""

    def __init__(self) -> None:
        self.sheds = False

    def observe(self, lag_seconds: float) -> None:
        """The loop was so late."""
        if lag_seconds > SHED_ABOVE_SECONDS:
            self.sheds = True
        elif lag_seconds < RECOVERED_BELOW_SECONDS:
            self.sheds = False

    async def run(self) -> None:
        """Watch until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + PERIOD_SECONDS
            await asyncio.sleep(PERIOD_SECONDS)
            self.observe(loop.time() - due)
