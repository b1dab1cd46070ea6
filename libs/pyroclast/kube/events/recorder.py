"""The event recorder: records Events on the objects of users, without delaying other work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import structlog

from pyroclast.api.types import EVENTS, Key
from pyroclast.kube.basics.deadline import Deadline
from pyroclast.kube.basics.errors import ApiError, ConnectionFailed, NotFound
from pyroclast.kube.basics.retry import jittered_backoff
from pyroclast.kube.events.correlator import Correlator, Emission, Reference, Report
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.resources.backoff import Backoff

log = structlog.get_logger()

LONGEST_BACKLOG: Final = 1000  # events; an unreachable server must not fill the memory
SENDERS: Final = 4  # requests at a time: one sender falls behind when many Jobs wait at once
SEND_SECONDS: Final = 10.0
FLUSH_SECONDS: Final = 2.0


class EventRecorder:
    """Records events and sends them in the background; `run` must be running.

    Like client-go, the recorder counts repeated events, combines similar ones and limits their rate. An event that is repeated
    before it was sent is sent once. A failure to send an event is never an error of the program.
    """

    def __init__(self, client: Client, component: str, *, now: Callable[[], float] = time.time) -> None:
        self.component = component
        self._client = client
        self._now = now
        self._correlator = Correlator(component)
        self._backlog: dict[Key, Emission] = {}
        self._under_way: set[Key] = set()
        self._more = asyncio.Event()

    def event(
        self,
        regarding: Mapping[str, Any] | Reference,
        type_: str,
        reason: str,
        message: str,
        *,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """Record that something happened to an object; `type_` is Normal or Warning. Never blocks, never raises.

        `labels`: labels of the Event, by which a client can select Events without knowing the object, for example by the
        PodGroup.
        """
        reference = regarding if isinstance(regarding, Reference) else Reference.to(regarding)
        emission = self._correlator.take(Report(reference, type_, reason, message, labels or {}), self._now())
        if emission is None:
            return
        if emission.key not in self._backlog and len(self._backlog) >= LONGEST_BACKLOG:
            self._client.observer.incident(EVENTS.qualified, "dropped")
            return
        self._queue(self._backlog.get(emission.key), emission)

    async def run(self) -> None:
        """Send recorded events until cancelled. Then send the remaining events for at most two seconds, and drop the others."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(SENDERS):
                    group.create_task(self._send_what_comes())
        finally:
            try:
                async with asyncio.timeout(FLUSH_SECONDS):
                    await self._send_all(Backoff(FLUSH_SECONDS, FLUSH_SECONDS))
            except TimeoutError:
                log.warning("events.dropped", count=len(self._backlog))

    async def _send_what_comes(self) -> None:
        backoff = jittered_backoff(0.5, 30.0)
        while True:
            await self._more.wait()
            await self._send_all(backoff)

    def _queue(self, earlier: Emission | None, latest: Emission) -> None:
        """Replace the waiting `earlier` by `latest`; `latest` is created if `earlier` was to be created."""
        self._backlog[latest.key] = replace(latest, is_new=True) if earlier is not None and earlier.is_new else latest
        self._more.set()

    async def _send_all(self, backoff: Backoff) -> None:
        """Send all events that no other sender is sending. A repeated event waits until its earlier version was sent."""
        while (key := next((key for key in self._backlog if key not in self._under_way), None)) is not None:
            emission = self._backlog.pop(key)
            self._under_way.add(key)
            try:
                await self._send(emission)
                backoff.reset()
            except ApiError as error:  # the namespace is being deleted, or a right is missing: other events may still succeed
                self._client.observer.incident(EVENTS.qualified, "refused")
                log.debug("event.refused", key=str(emission.key), error=str(error))
            except ConnectionFailed:
                self._queue(emission, self._backlog.get(emission.key, emission))
                await asyncio.sleep(backoff.next())
            except asyncio.CancelledError:  # a possibly lost event is sent with the remaining ones
                self._queue(emission, self._backlog.get(emission.key, emission))
                raise
            finally:
                self._under_way.discard(key)
                if self._backlog:
                    self._more.set()
        self._more.clear()

    async def _send(self, emission: Emission) -> None:
        deadline = Deadline.after(SEND_SECONDS)
        if not emission.is_new:
            try:
                await self._client.patch(EVENTS, emission.key, emission.patch, PatchKind.MERGE, deadline=deadline)
            except NotFound:
                log.debug("event.expired", key=str(emission.key))  # the server deletes events after an hour
            else:
                return
        await self._client.create(EVENTS, emission.body, deadline=deadline)
