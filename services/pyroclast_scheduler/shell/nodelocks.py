"""Node locks: an annotation with a time, which the agent of the node removes after it has allocated the cards of a pod."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final
from weakref import WeakValueDictionary

import structlog

from pyroclast.api import records
from pyroclast.api.types import NODES, Key
from pyroclast.kube.basics.deadline import Deadline
from pyroclast.kube.basics.errors import Conflict, KubeError
from pyroclast.kube.basics.retry import jittered_backoff
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.kube.http.response_records import readable
from pyroclast.lifecycle.times import format_time

log = structlog.get_logger()

STALE_SECONDS: Final = 300.0  # later than this, an agent does not respond any more
PATIENCE_SECONDS: Final = 2 * STALE_SECONDS  # another scheduler may replace a stale lock first
_REQUEST_SECONDS: Final = 30.0


class LockHeld(Exception):
    """Another program holds the lock of a node for too long."""


class NodeLocks:
    """One lock per node and annotation. `now`: returns seconds since the epoch."""

    def __init__(self, client: Client, now: Callable[[], float]) -> None:
        self._client = client
        self._now = now
        self._turns: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def take(self, node: str, lock: str, alive: Callable[[], bool]) -> str:
        """Wait for the lock of a node and acquire it, also a stale one. Return the value of the annotation.

        `alive`: returns whether the lock is still needed. LockHeld: it was not free for too long, or is not needed any more.
        """
        turn = self._turns.setdefault((node, lock), asyncio.Lock())
        deadline = Deadline.after(PATIENCE_SECONDS)
        backoff = jittered_backoff(0.1, 5.0)
        while alive():
            async with turn:  # otherwise binds of this scheduler would conflict with each other
                value = await self._try(node, lock)
            if value is not None:
                return value
            if not deadline.left():
                raise LockHeld(f"node {node} has been locked for {PATIENCE_SECONDS:g} s")
            await asyncio.sleep(backoff.next())
        raise LockHeld("the pod is gone")

    async def release(self, node: str, lock: str, value: str) -> None:
        """Release a lock that no agent will release, if the annotation still has `value`."""
        try:
            found = await self._read(node)
            if found is not None and found.metadata.annotations.get(lock) == value:
                await self._write(found, lock, None)
        except KubeError as error:  # the lock becomes stale
            log.warning("node.lock_not_released", node=node, error=str(error))

    async def _try(self, node: str, lock: str) -> str | None:
        found = await self._read(node)
        now = self._now()
        if found is None or _is_fresh(found.metadata.annotations.get(lock), now):
            return None
        value = format_time(now)
        try:
            await self._write(found, lock, value)
        except Conflict:
            return None
        return value

    async def _read(self, node: str) -> records.Node | None:
        body = await self._client.get(NODES, Key("", node), deadline=Deadline.after(_REQUEST_SECONDS))
        return readable(body, records.Node)

    async def _write(self, node: records.Node, lock: str, value: str | None) -> None:
        """Write the annotation, guarded by the resource version (Conflict), so that two schedulers cannot acquire the lock."""
        metadata: dict[str, Any] = {"resourceVersion": node.metadata.resource_version, "annotations": {lock: value}}
        deadline = Deadline.after(_REQUEST_SECONDS)
        await self._client.patch(NODES, node.key, {"metadata": metadata}, PatchKind.MERGE, deadline=deadline)


def _is_fresh(value: str | None, now: float) -> bool:
    """Whether a lock is valid. A lock with a malformed time is not valid."""
    try:
        taken = datetime.fromisoformat(value) if value else None
    except ValueError:
        return False
    if taken is None:
        return False
    return now - (taken if taken.tzinfo else taken.replace(tzinfo=UTC)).timestamp() <= STALE_SECONDS
