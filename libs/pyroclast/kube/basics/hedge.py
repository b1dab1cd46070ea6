"""Asking again without giving up on the first question: for what must be answered by a time, by a server that is slow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from pyroclast.kube.basics.errors import ConnectionFailed, KubeError

__all__ = ["first_answer"]

T = TypeVar("T")


async def first_answer(ask: Callable[[], Coroutine[Any, Any, T]], patience: float, most: int) -> tuple[float, T]:
    """The first answer to up to `most` equal requests, and when (by the loop's clock) the one that it answers was begun.

    Each is begun when none of those before was answered for `patience` seconds: one that hangs is not waited for, and one that is
    only slow is not thrown away, with its connection, to be made anew on a server that has too much to do already. Sending the
    request twice must do no harm. The others are cancelled.

    Raises:
        KubeError: all that were begun failed. What the server said goes before that it said nothing.
    """
    loop = asyncio.get_running_loop()
    began: dict[asyncio.Task[T], float] = {}
    failures: list[BaseException] = []
    try:
        while True:
            if not failures and len(began) < most:
                began[loop.create_task(ask())] = loop.time()
            timeout = patience if not failures and len(began) < most else None
            done, _ = await asyncio.wait(began, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                error = task.exception()
                if error is None:
                    return began[task], task.result()
                failures.append(error)
                del began[task]
            if not began:
                raise min(failures, key=lambda error: isinstance(error, ConnectionFailed) or not isinstance(error, KubeError))
    finally:
        for task in began:
            task.cancel()
        await asyncio.gather(*began, return_exceptions=True)
