"""Notes which cached queues and flows speak for a denial, so that they are read afresh before the denial is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from pyroclast.api.types import JOB_FLOWS, QUEUES, Key, ResourceType
from pyroclast.rules.lookups import FlowLookup, FlowView, NotedQueues, QueueView, ReadQueues
from pyroclast_admission.known import Known

Doubt: TypeAlias = tuple[ResourceType, Key]
View: TypeAlias = QueueView | FlowView


def noting(known: Known, doubts: set[Doubt]) -> Known:
    """Return `known` with lookups that add to `doubts` each queue or flow that is missing or speaks against the request."""

    def note(queue: str) -> None:
        doubts.add((QUEUES, Key("", queue)))

    return replace(known, queues=NotedQueues(known.queues, note), flows=_NotedFlows(known.flows, doubts))


def with_read(known: Known, read: Mapping[Doubt, View | None]) -> Known:
    """Return `known` with the objects in `read` in place of the cached ones.

    None in `read` means that the object does not exist.
    """
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
