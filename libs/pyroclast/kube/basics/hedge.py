"""Hedged requests: a request is sent again while its first attempt is still open, to get a response from a slow server
in time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from pyroclast.kube.basics.errors import ConnectionFailed, KubeError

T = TypeVar("T")


async def first_answer(ask: Callable[[], Coroutine[Any, Any, T]], patience: float, most: int) -> tuple[float, T]:
    """Return the first response to up to `most` equal requests, and when its request began (by the loop's clock).

    The next request begins when the earlier requests have had no response for `patience` seconds, so that a hanging request
    delays nobody. An earlier request continues, since a new connection would cost a busy server more. Sending the request twice
    must do no harm. The first response cancels the other requests.

    Raises:
        KubeError: all requests failed. An error sent by the server takes precedence over a missing response.
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
