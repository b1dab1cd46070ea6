"""Decides when the service refuses reviews with a request to try again, because a late answer would be worse."""

from __future__ import annotations

import asyncio
from typing import Final

SHED_ABOVE_SECONDS: Final = 2.0
"""Delay of the event loop in seconds from which reviews are refused. The API server waits 10 s at most, often only 5 s."""

RECOVERED_BELOW_SECONDS: Final = 0.5
"""Delay in seconds below which reviews are accepted again. A limit well below the other one avoids flapping."""

PERIOD_SECONDS: Final = 0.1


class Overload:
    """Measures the delay of the event loop, which is the time that a request waits before it is handled."""

    def __init__(self) -> None:
        self.sheds = False

    def observe(self, lag_seconds: float) -> None:
        """Set `sheds` from one measured delay of the loop."""
        if lag_seconds > SHED_ABOVE_SECONDS:
            self.sheds = True
        elif lag_seconds < RECOVERED_BELOW_SECONDS:
            self.sheds = False

    async def run(self) -> None:
        """Measure the delay until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + PERIOD_SECONDS
            await asyncio.sleep(PERIOD_SECONDS)
            self.observe(loop.time() - due)
