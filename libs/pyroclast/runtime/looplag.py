"""Measures how much the event loop is held up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

__all__ = ["measure_lag"]

PERIOD_SECONDS: Final = 0.02
"""What holds the loop up for longer is seen, short of at most this much; asking so often costs a thousandth of a core."""


async def measure_lag(observe: Callable[[float, float], None]) -> None:
    """Call `observe` after each of a series of short sleeps, until cancelled.

    `observe` gets by how many seconds the sleep was too long, and for how many of these, at most, this process was at work itself
    rather than waiting for a core.
    """
    loop = asyncio.get_running_loop()
    while True:
        due, used = loop.time() + PERIOD_SECONDS, time.process_time()
        await asyncio.sleep(PERIOD_SECONDS)
        late = max(0.0, loop.time() - due)
        observe(late, min(late, time.process_time() - used))
