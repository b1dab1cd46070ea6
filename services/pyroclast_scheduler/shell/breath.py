"""Long work on the event loop in short pieces, so that watches, Leases and health keep their pace."""

from __future__ import annotations

import asyncio
import time
from typing import Final

__all__ = ["Breath"]

_LONGEST_SECONDS: Final = 0.01  # a fifth of what the loop may be held for


class Breath:
    """Awaited between two pieces of work: lets others run when the last pause is too long ago."""

    def __init__(self) -> None:
        self._since = time.perf_counter()

    async def pause(self) -> None:
        """Let others run, if it is time."""
        if time.perf_counter() - self._since > _LONGEST_SECONDS:
            await asyncio.sleep(0)
            self._since = time.perf_counter()
