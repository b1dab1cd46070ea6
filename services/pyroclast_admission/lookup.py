"""Notes which cached queues and flows speak for a denial, and reads them from the API server before the denial is sent."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from msgspec.structs import replace

from pyroclast.api.records import JobFlow, Queue
from pyroclast.api.types import JOB_FLOWS, QUEUES, Key, ResourceType
from pyroclast.kube.basics.deadline import Deadline
from pyroclast.kube.http.client import Client
from pyroclast.kube.http.response_records import found, record_of
from pyroclast.rules.lookups import FlowView, NotedQueues, QueueView, ReadQueues
from pyroclast.runtime.in_process.queues import QueueCache, queue_view
from pyroclast_admission.caches import flow_view
from pyroclast_admission.known import Known

Doubt: TypeAlias = tuple[ResourceType, Key]
View: TypeAlias = QueueView | FlowView


def noting(known: Known, doubts: set[Doubt]) -> Known:
    """Return `known` with lookups that add to `doubts` each queue or flow that is missing or speaks against the request."""

    def note(queue: str) -> None:
        doubts.add((QUEUES, Key("", queue)))

    def flows_using(namespace: str, template: str) -> Sequence[FlowView]:
        flows = known.flows(namespace, template)
        doubts.update((JOB_FLOWS, Key(namespace, flow.name)) for flow in flows if not flow.is_complete)
        return flows

    return replace(known, queues=NotedQueues(known.queues, note), flows=flows_using)


def with_read(known: Known, read: Mapping[Doubt, View | None]) -> Known:
    """Return `known` with the objects in `read` in place of the cached ones; None for one that does not exist."""
    queues = {key.name: view for (kind, key), view in read.items() if kind is QUEUES and not isinstance(view, FlowView)}
    flows = {key: view for (kind, key), view in read.items() if kind is JOB_FLOWS and not isinstance(view, QueueView)}

    def flows_using(namespace: str, template: str) -> Sequence[FlowView]:
        """Return the flows with fresh phases. Which template a flow names is from the cache, because it hardly ever changes."""
        there = [flows.get(Key(namespace, flow.name), flow) for flow in known.flows(namespace, template)]
        return [flow for flow in there if flow is not None]

    return replace(known, queues=ReadQueues(known.queues, queues), flows=flows_using)


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
        body = await found(self._client.get(kind, key, deadline=Deadline.after(SECONDS)))
        if body is not None:
            return flow_view(record_of(body, JobFlow)) if kind is JOB_FLOWS else queue_view(record_of(body, Queue))
        if is_unknown:
            if len(self._absent) >= REMEMBERED:
                self._absent.clear()
            self._absent[key.name] = now + REMEMBERED_SECONDS
        return None
