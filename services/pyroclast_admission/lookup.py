"""Notes which cached queues and flows speak for a denial, and reads them from the API server before the denial is sent."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from msgspec.structs import replace

from pyroclast.api.records import JobFlow, Queue
from pyroclast.api.types import JOB_FLOWS, QUEUES, Key, ResourceType
from pyroclast.kube.basics.deadline import Deadline
from pyroclast.kube.basics.errors import NotFound
from pyroclast.kube.http.client import Client
from pyroclast.kube.http.response_records import record_of
from pyroclast.rules.lookups import FlowLookup, FlowView, NotedQueues, QueueView, ReadQueues
from pyroclast.runtime.in_process.queues import QueueCache, queue_view
from pyroclast_admission.caches import flow_view
from pyroclast_admission.known import Known

Doubt: TypeAlias = tuple[ResourceType, Key]
View: TypeAlias = QueueView | FlowView


def noting(known: Known, doubts: set[Doubt]) -> Known:
    """Return `known` with lookups that add to `doubts` each queue or flow that is missing or speaks against the request."""

    def note(queue: str) -> None:
        doubts.add((QUEUES, Key("", queue)))

    return replace(known, queues=NotedQueues(known.queues, note), flows=_NotedFlows(known.flows, doubts))


def with_read(known: Known, read: Mapping[Doubt, View | None]) -> Known:
    """Return `known` with the objects in `read` in place of the cached ones; None for one that does not exist."""
    queues = {key.name: view for (kind, key), view in read.items() if kind is QUEUES and not isinstance(view, FlowView)}
    flows = {key: view for (kind, key), view in read.items() if kind is JOB_FLOWS and not isinstance(view, QueueView)}
    return replace(known, queues=ReadQueues(known.queues, queues), flows=_ReadFlows(known.flows, flows))


class _NotedFlows:
    __slots__ = ("_doubts", "_flows")

    def __init__(self, flows: FlowLookup, doubts: set[Doubt]) -> None:
        self._flows, self._doubts = flows, doubts

    def using(self, namespace: str, template: str) -> Sequence[FlowView]:
        flows = self._flows.using(namespace, template)
        self._doubts.update((JOB_FLOWS, Key(namespace, flow.name)) for flow in flows if not flow.is_complete)
        return flows


class _ReadFlows:
    """Flow lookup with fresh phases. Which template a flow names is still read from the cache, because it hardly ever changes."""

    __slots__ = ("_flows", "_read")

    def __init__(self, flows: FlowLookup, read: Mapping[Key, FlowView | None]) -> None:
        self._flows, self._read = flows, read

    def using(self, namespace: str, template: str) -> Sequence[FlowView]:
        found = [self._read.get(Key(namespace, flow.name), flow) for flow in self._flows.using(namespace, template)]
        return [flow for flow in found if flow is not None]


SECONDS: Final = 2.0
"""Time limit of a lookup in seconds. The API server waits for the review meanwhile."""

REMEMBERED_SECONDS: Final = 0.5
"""Time in seconds for which a missing queue is not read again: many Jobs may name the same wrong queue at once."""

REMEMBERED: Final = 1024


class Fetcher:
    """Reads queues and flows from the API server."""

    def __init__(self, client: Client, queues: QueueCache, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._queues, self._clock = client, queues, clock
        self._absent: dict[str, float] = {}

    async def fetch(self, doubt: Doubt) -> View | None:
        """Return the object as the API server has it now; None when it does not exist or is being deleted."""
        now = self._clock()
        kind, key = doubt
        is_unknown = kind is QUEUES and self._queues.get(key.name) is None
        if is_unknown and self._absent.get(key.name, 0.0) > now:
            return None
        try:
            found = await self._client.get(kind, key, deadline=Deadline.after(SECONDS))
        except NotFound:
            if is_unknown:
                if len(self._absent) >= REMEMBERED:
                    self._absent.clear()
                self._absent[key.name] = now + REMEMBERED_SECONDS
            return None
        if kind is JOB_FLOWS:
            return flow_view(record_of(found, JobFlow))
        return queue_view(record_of(found, Queue))
