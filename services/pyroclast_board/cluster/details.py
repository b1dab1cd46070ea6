"""The data that only the page of one Job or PodGroup shows: manifest, pods and events.

The data is read when a viewer requests the page, and is shared for a short time.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from pyroclast.api import keys
from pyroclast.api.types import EVENTS, JOBS, PODS, Key
from pyroclast.kube.basics.deadline import Deadline
from pyroclast.kube.basics.errors import KubeError, NotFound
from pyroclast.kube.credentials.authorization import StaticCredentials
from pyroclast.kube.credentials.config import ClusterConfig
from pyroclast.kube.http.client import Client
from pyroclast.views.story import LogSource

FRESH_SECONDS: Final = 2.0
MOST: Final = 256
MOST_EVENTS: Final = 50
LOG_SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True)
class JobDetails:
    """The details of one Job. `job` is None when the Job was deleted or not read. `missing` says what could not be read.

    `evictions` are the Events of all evictions in the namespace of the Job.
    """

    job: dict[str, Any] | None
    pods: tuple[dict[str, Any], ...] = ()
    events: tuple[dict[str, Any], ...] = ()
    missing: str = ""
    evictions: tuple[dict[str, Any], ...] = ()


class Details:
    """Reads the details of a Job once for all its viewers, and at most every two seconds."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: OrderedDict[tuple[Key, str], tuple[float, asyncio.Task[JobDetails]]] = OrderedDict()

    async def of(self, key: Key) -> JobDetails:
        """Return the details of a Job."""
        return await self._shared((key, ""), partial(self._read, key))

    async def events_of(self, key: Key, uid: str) -> JobDetails:
        """Return the Events of an object that is not a Job."""
        return await self._shared((key, uid), partial(self._read_events, key, uid))

    async def events_of_node(self, name: str) -> JobDetails:
        """Return the Events of a node, which are in the namespace `default`."""
        found = await self._shared((Key("", name), "node"), partial(self._read_events, Key("default", name)))
        return replace(found, events=tuple(each for each in found.events if each["involvedObject"].get("kind") == "Node"))

    async def _shared(self, slot: tuple[Key, str], read: Callable[[], Coroutine[Any, Any, JobDetails]]) -> JobDetails:
        begun, task = self._known.get(slot, (float("-inf"), None))
        if task is None or (task.done() and time.monotonic() - begun > FRESH_SECONDS):
            task = asyncio.create_task(read())
            self._known[slot] = (time.monotonic(), task)
            self._known.move_to_end(slot)
            while len(self._known) > MOST:
                self._known.popitem(last=False)
        return await asyncio.shield(task)

    async def _read(self, key: Key) -> JobDetails:
        client, missing = self._client, []
        try:
            job = await client.get(JOBS, key)
        except NotFound:
            return JobDetails(None)
        except KubeError as error:
            return JobDetails(None, missing=f"the Job: {error}")
        pods: list[dict[str, Any]] = []
        try:
            pods, _ = await client.list(PODS, key.namespace, label_selector=f"{keys.JOB_NAME}={key.name}")
        except KubeError as error:
            missing.append(f"its pods: {error}")
        evictions: list[dict[str, Any]] = []
        try:
            evictions, _ = await client.list(EVENTS, key.namespace, field_selector="reason=Evict")
        except KubeError as error:
            missing.append(f"its evictions: {error}")
        events = await self._read_events(key)
        missing += [events.missing] if events.missing else []
        return JobDetails(job, tuple(pods), events.events, "; ".join(missing), tuple(evictions))

    async def log(self, namespace: str, source: LogSource, token: str | None) -> str:
        """Return the last lines of a log, read with the viewer's token; with the board's own rights if `token` is None.

        Raises KubeError: the viewer may not read the log, or the node does not answer.
        """
        path, deadline = PODS.path(namespace, source.pod, "log"), Deadline.after(LOG_SECONDS)
        if token is None:
            answer = await self._client.request("GET", path, query=source.query, deadline=deadline)
        else:
            own = self._client.config
            config = ClusterConfig(own.server, own.authority, own.server_name, own.insecure, proxy=own.proxy)
            config = replace(config, credentials=StaticCredentials.token(token))
            async with Client(config, max_attempts=1, user_agent="pyroclast-board") as client:
                answer = await client.request("GET", path, query=source.query, deadline=deadline)
        return answer.decode(errors="replace")

    async def _read_events(self, key: Key, uid: str = "") -> JobDetails:
        """Return the events of the objects with this name, newest first. With `uid`, only the events of that object."""
        try:
            found, _ = await self._client.list(EVENTS, key.namespace, field_selector=f"involvedObject.name={key.name}")
        except KubeError as error:
            return JobDetails(None, missing=f"its events: {error}")
        events = [each for each in found if uid in {"", each["involvedObject"].get("uid")}]
        events.sort(key=lambda each: str(each.get("lastTimestamp") or each.get("eventTime") or ""), reverse=True)
        return JobDetails(None, events=tuple(events[:MOST_EVENTS]))
