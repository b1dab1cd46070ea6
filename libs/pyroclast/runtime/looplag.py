"""Measures how much the event loop is held up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

__all__ = ["measure_lag"]

PERIOD_SECONDS: Final = 0.02
"""What holds the loop up for longer is seen, short of at most this much; asking so often costs a thousandth of a core."""


async def measure_lag(observe: Callable[[float], None]) -> None:
    """Call `observe` with the seconds by which each of a series of short sleeps took too long, until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + PERIOD_SECONDS
        await asyncio.sleep(PERIOD_SECONDS)
        observe(max(0.0, loop.time() - due))
