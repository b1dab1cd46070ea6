"""Workers: take keys from a work queue, reconcile them, and retry after failures."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from pyroclast.kube.basics.errors import ApiError, KubeError, is_transient
from pyroclast.kube.workqueue.queue import K, QueueClosed, WorkQueue
from pyroclast.kube.workqueue.rejections import Refusals

log = structlog.get_logger()


async def run_workers(
    queue: WorkQueue[K], reconcile: Callable[[K], Awaitable[object]], workers: int, refusals: Refusals[K] | None = None
) -> None:
    """Reconcile the keys of `queue` with `workers` tasks, until the queue is closed and empty, or until cancelled.

    A key whose reconciliation raises is tried again after a delay that doubles, or that the API server requested. Such an error
    never ends a worker. `refusals` records permanent errors as Events, and decides when the key is tried again: not earlier, even
    if its object changes.
    """
    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(_work(queue, reconcile, refusals))


async def _work(queue: WorkQueue[K], reconcile: Callable[[K], Awaitable[object]], refusals: Refusals[K] | None) -> None:
    while True:
        try:
            key = await _next(queue, refusals)
        except QueueClosed:
            return
        failures = queue.failures(key)
        failed, asked, pause = True, 0.0, 0.0
        try:
            await reconcile(key)
            failed = False
            if refusals is not None:
                refusals.forget(key)
        except KubeError as error:
            if refusals is not None and not is_transient(error):
                pause = refusals.take(key, error)
            else:
                asked = error.retry_after or 0.0 if isinstance(error, ApiError) else 0.0
                log.warning("reconcile.failed", queue=queue.name, key=str(key), error=str(error), retries=failures)
        except Exception:  # any other error concerns only this key
            log.exception("reconcile.crashed", queue=queue.name, key=str(key), retries=failures)
        finally:
            queue.done(key, failed=failed)
        if pause:
            queue.add_after(key, pause)
        elif failed:
            queue.add_rate_limited(key, after=asked)
        elif queue.failures(key) == failures:
            queue.forget(key)  # unless the reconciliation itself requested a delayed retry


async def _next(queue: WorkQueue[K], refusals: Refusals[K] | None) -> K:
    """Return the next key that may be tried now."""
    while True:
        key = await queue.get()
        left = refusals.left(key) if refusals is not None else 0.0
        if not left:
            return key
        queue.done(key)
        queue.add_after(key, left)
