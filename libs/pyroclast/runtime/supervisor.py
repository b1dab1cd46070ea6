"""Supervised tasks: each task has an owner, and the unexpected end of a task ends the process."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import structlog

log = structlog.get_logger()


class TaskDied(Exception):
    """A task ended that should run as long as the process. Its exception, if there was one, is the `__cause__`."""


class Supervisor:
    """Owns tasks. `died` resolves when a task ends unexpectedly."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], str] = {}
        self._may_return: set[asyncio.Task[None]] = set()
        self._stopping = False
        self.died: asyncio.Future[TaskDied] = asyncio.get_running_loop().create_future()

    def spawn(self, name: str, coroutine: Coroutine[Any, Any, None], *, may_return: bool = False) -> asyncio.Task[None]:
        """Run `coroutine` until the supervisor stops. With `may_return` the task may end by itself, but not raise."""
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks[task] = name
        if may_return:
            self._may_return.add(task)
        task.add_done_callback(self._ended)
        return task

    async def stop(self, seconds: float) -> list[str]:
        """Cancel all tasks one after the other, the newest first; return the names of the tasks that did not end in time."""
        self._stopping = True
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        left = []
        for task, name in reversed(list(self._tasks.items())):
            task.cancel()
            await asyncio.wait([task], timeout=max(0.0, deadline - loop.time()))
            if not task.done():
                left.append(name)
        return left

    def _ended(self, task: asyncio.Task[None]) -> None:
        name = self._tasks.pop(task)
        error = None if task.cancelled() else task.exception()
        if self._stopping:
            if error is not None:
                log.warning("task.failed_while_stopping", task=name, error=repr(error))
            return
        if error is None and task in self._may_return and not task.cancelled():
            return
        if not self.died.done():
            died = TaskDied(f"{name} {'ended' if error is None else f'died: {error!r}'}")
            died.__cause__ = error
            self.died.set_result(died)
