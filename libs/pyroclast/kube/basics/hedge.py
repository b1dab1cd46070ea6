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

    The next request begins when those before have been without an answer for `patience` seconds. So nobody waits for one that
    hangs. A slow one goes on, since a new connection would cost a busy server more. Sending the request twice must do no harm.
    The first answer cancels the others.

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
