"""Workers: take keys from a work queue and reconcile them, retrying what fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from pyroclast.kube.errors import ApiError, KubeError
from pyroclast.kube.queue import K, QueueClosed, WorkQueue

__all__ = ["run_workers"]

log = structlog.get_logger()


async def run_workers(queue: WorkQueue[K], reconcile: Callable[[K], Awaitable[object]], workers: int) -> None:
    """Reconcile the keys of `queue`, so many at a time, until it is closed and empty, or this is cancelled.

    A key whose reconciliation raises is tried again later, with a delay that doubles, or that the API server asked for; it never
    ends the worker.
    """
    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(_work(queue, reconcile))


async def _work(queue: WorkQueue[K], reconcile: Callable[[K], Awaitable[object]]) -> None:
    while True:
        try:
            key = await queue.get()
        except QueueClosed:
            return
        failures = queue.failures(key)
        failed, asked = True, 0.0
        try:
            await reconcile(key)
            failed = False
        except KubeError as error:
            asked = error.retry_after or 0.0 if isinstance(error, ApiError) else 0.0
            log.warning("reconcile.failed", queue=queue.name, key=str(key), error=str(error), retries=failures)
        except Exception:  # whatever it is, it concerns this key alone
            log.exception("reconcile.crashed", queue=queue.name, key=str(key), retries=failures)
        finally:
            queue.done(key, failed=failed)
        if failed:
            queue.add_rate_limited(key, after=asked)
        elif queue.failures(key) == failures:
            queue.forget(key)  # unless the reconciliation itself asked for a delayed retry
