"""All changes of a Job as one stream: its phases, the Events about it, and its pods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from pyroclast.api import keys
from pyroclast.api.types import EVENTS, PODS, Key, ResourceType
from pyroclast.kube.http.client import Client, selectors
from pyroclast_client.loops import end
from pyroclast_client.states import status_of
from pyroclast_client.watching import SelectionWatch, Watcher

GRACE_SECONDS: Final = 0.5  # Events about the end of a Job arrive after its last phase
PHASE, EVENT, POD, DELETED = "phase", "event", "pod", "deleted"


@dataclass(frozen=True, slots=True)
class JobEvent:
    """One change of a Job. `kind` is `phase`, `event`, `pod` or `deleted`. `about` is the name of the Job or pod."""

    kind: str
    about: str
    reason: str
    message: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.about}: {self.reason}{f': {self.message}' if self.message else ''}"


async def job_events(client: Client, watcher: Watcher, key: Key, uid: str) -> AsyncGenerator[JobEvent]:
    """Yield the past and future changes of the Job with this UID, until the Job ends."""
    told: asyncio.Queue[JobEvent | Exception | None] = asyncio.Queue()
    told_pods = _PodPhases(uid)
    selections: tuple[tuple[ResourceType, dict[str, str], Callable[[Mapping[str, Any]], JobEvent | None]], ...] = (
        (EVENTS, selectors("", f"involvedObject.uid={uid}"), _event),
        (PODS, selectors(f"{keys.JOB_NAME}={key.name}", ""), told_pods.event),
    )
    loop = asyncio.get_running_loop()
    readers = [
        loop.create_task(_reported(told, SelectionWatch(client, kind, key.namespace, query).run(partial(_put, told, event_of))))
        for kind, query, event_of in selections
    ]
    phases = loop.create_task(_reported(told, _phases(watcher, key, uid, told)))
    try:
        while (found := await told.get()) is not None:
            if isinstance(found, Exception):
                raise found
            yield found
        await asyncio.sleep(GRACE_SECONDS)
        while not told.empty():
            late = told.get_nowait()
            if isinstance(late, JobEvent):
                yield late
    finally:
        await end((*readers, phases))


async def _reported(told: asyncio.Queue[JobEvent | Exception | None], work: Awaitable[None]) -> None:
    """Await `work`. An error is put into the queue, so that the reader of the stream raises it."""
    try:
        await work
    except Exception as error:  # noqa: BLE001 - raised for the reader of the stream
        told.put_nowait(error)


async def _phases(watcher: Watcher, key: Key, uid: str, told: asyncio.Queue[JobEvent | Exception | None]) -> None:
    before = ""
    async with aclosing(watcher.follow(key.name)) as changes:
        async for job in changes:
            if job is None or job["metadata"]["uid"] != uid:
                told.put_nowait(JobEvent(DELETED, key.name, "Deleted"))
                break
            status = status_of(job)
            if status.phase != before:
                before = status.phase
                told.put_nowait(JobEvent(PHASE, key.name, status.phase, status.message))
            if status.is_finished:
                break
    told.put_nowait(None)


def _event(item: Mapping[str, Any]) -> JobEvent:
    return JobEvent(EVENT, str(item["involvedObject"].get("name", "")), str(item.get("reason", "")), str(item.get("message", "")))


def _put(
    told: asyncio.Queue[JobEvent | Exception | None],
    event_of: Callable[[Mapping[str, Any]], JobEvent | None],
    item: Mapping[str, Any],
) -> None:
    if (found := event_of(item)) is not None:
        told.put_nowait(found)


class _PodPhases:
    """Reports each phase of each pod of a Job once."""

    def __init__(self, uid: str) -> None:
        self._uid = uid
        self._known: dict[str, str] = {}

    def event(self, item: Mapping[str, Any]) -> JobEvent | None:
        """Return the event of the new phase of a pod. None when this phase was reported before."""
        metadata, status = item["metadata"], item.get("status") or {}
        phase = str(status.get("phase") or "Pending")
        is_owned = any(owner.get("uid") == self._uid for owner in metadata.get("ownerReferences") or ())
        if not is_owned or self._known.get(metadata["uid"]) == phase:
            return None
        self._known[metadata["uid"]] = phase
        return JobEvent(POD, metadata["name"], phase, str(status.get("message") or ""))
