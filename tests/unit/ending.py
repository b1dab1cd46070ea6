"""Tasks that run beside a test, and end with it."""

from __future__ import annotations

import asyncio
from typing import Any

__all__ = ["ended"]


async def ended(*tasks: asyncio.Task[Any]) -> None:
    """Cancel them, and wait until all have ended, in whatever way."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
