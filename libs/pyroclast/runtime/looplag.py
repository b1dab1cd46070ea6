"""Measures for how long the event loop is blocked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

PERIOD_SECONDS: Final = 0.02
"""The length of a probe. Shorter blocks are not seen, and longer ones are underestimated by at most this; probing costs 0.1 % of
a core.
"""


async def measure_lag(observe: Callable[[float, float], None]) -> None:
    """Call `observe(late, held)` after each of a series of short sleeps, until cancelled.

    `late`: by how many seconds the sleep was too long. `held`: for how many of these seconds, at most, this process itself used
    the CPU, instead of waiting for a core.
    """
    loop = asyncio.get_running_loop()
    while True:
        due, used = loop.time() + PERIOD_SECONDS, time.process_time()
        await asyncio.sleep(PERIOD_SECONDS)
        late = max(0.0, loop.time() - due)
        observe(late, min(late, time.process_time() - used))
