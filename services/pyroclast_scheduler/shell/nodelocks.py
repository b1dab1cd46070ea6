"""Locks of nodes: an annotation with the time, which the node's agent takes away when it has handed out the cards of a pod."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final
from weakref import WeakValueDictionary

import structlog

from pyroclast.api import records
from pyroclast.api.types import NODES, Key
from pyroclast.kube.basics.backoff import Backoff
from pyroclast.kube.basics.deadline import Deadline
from pyroclast.kube.basics.errors import Conflict, KubeError
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.kube.http.response_records import readable
from pyroclast.lifecycle.times import format_time

__all__ = ["LockHeld", "NodeLocks"]

log = structlog.get_logger()

STALE_SECONDS: Final = 300.0  # an agent that has not answered by then will not
PATIENCE_SECONDS: Final = 2 * STALE_SECONDS  # others may take a lock that went stale before us
_REQUEST_SECONDS: Final = 30.0


class LockHeld(Exception):
    """Somebody else has the lock of a node, and keeps it."""


class NodeLocks:
    """One lock per node and annotation. `now`: seconds since the epoch."""

    def __init__(self, client: Client, now: Callable[[], float]) -> None:
        self._client = client
        self._now = now
        self._turns: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def take(self, node: str, lock: str, alive: Callable[[], bool]) -> str:
        """Wait for the lock of a node and take it; the value that stands for us. A stale one is taken over.

        `alive` is asked at every look whether there is still need of it.

        Raises:
            LockHeld: it was not to be had for long, or is needed no more.
            KubeError: the node cannot be read or written.
        """
        turn = self._turns.setdefault((node, lock), asyncio.Lock())
        deadline = Deadline.after(PATIENCE_SECONDS)
        backoff = Backoff(0.1, 5.0)
        while alive():
            async with turn:  # or ours would run into each other's conflicts
                value = await self._try(node, lock)
            if value is not None:
                return value
            if not deadline.left():
                raise LockHeld(f"node {node} has been locked for {PATIENCE_SECONDS:g} s")
            await asyncio.sleep(backoff.next())
        raise LockHeld("the pod is gone")

    async def release(self, node: str, lock: str, value: str) -> None:
        """Give back a lock that no agent will release, if it is still ours."""
        try:
            found = await self._read(node)
            if found is not None and found.metadata.annotations.get(lock) == value:
                await self._write(found, lock, None)
        except KubeError as error:  # it goes stale
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
        """Only onto the version that was looked at: else two could take the lock.

        Raises:
            Conflict: the node is another by now.
        """
        metadata: dict[str, Any] = {"resourceVersion": node.metadata.resource_version, "annotations": {lock: value}}
        deadline = Deadline.after(_REQUEST_SECONDS)
        await self._client.patch(NODES, node.key, {"metadata": metadata}, PatchKind.MERGE, deadline=deadline)


def _is_fresh(value: str | None, now: float) -> bool:
    """Whether a lock is in force; one of which the time makes no sense is none that an agent would know."""
    try:
        taken = datetime.fromisoformat(value) if value else None
    except ValueError:
        return False
    if taken is None:
        return False
    return now - (taken if taken.tzinfo else taken.replace(tzinfo=UTC)).timestamp() <= STALE_SECONDS
