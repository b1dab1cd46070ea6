"""SIGTERM and SIGINT as a request to stop."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_requested() -> Iterator[asyncio.Future[None]]:
    """Yield a future that resolves at the first SIGTERM or SIGINT; a second signal ends the process at once.

    Only for the main thread. At the end of the block, the previous signal handlers are restored.
    """
    loop = asyncio.get_running_loop()
    asked: asyncio.Future[None] = loop.create_future()
    seen = False

    def resolve() -> None:
        if not asked.done():
            asked.set_result(None)

    def handle(_number: int, _frame: FrameType | None) -> None:
        nonlocal seen
        if seen:
            os._exit(1)
        seen = True
        loop.call_soon_threadsafe(resolve)

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
