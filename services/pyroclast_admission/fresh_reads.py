"""What a denial may rest on that the caches show as it was a moment ago: noted first, then read, then answered by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import TypeAlias

from msgspec.structs import replace

from pyroclast.api.types import JOB_FLOWS, QUEUES, Key, ResourceType
from pyroclast.rules.lookups import FlowLookup, FlowView, QueueLookup, QueueView
from pyroclast_admission.known import Known

__all__ = ["Doubt", "View", "noting", "with_read"]

Doubt: TypeAlias = tuple[ResourceType, Key]
View: TypeAlias = QueueView | FlowView


def noting(known: Known, doubts: set[Doubt]) -> Known:
    """`known`, with a note in `doubts` of what is asked for and speaks against a request, or is not there."""
    return replace(known, queues=_NotedQueues(known.queues, doubts), flows=_NotedFlows(known.flows, doubts))


def with_read(known: Known, read: Mapping[Doubt, View | None]) -> Known:
    """`known` with what was read since in its place; an object that was read as None is not there."""
    queues = {key.name: view for (kind, key), view in read.items() if kind is QUEUES and not isinstance(view, FlowView)}
    flows = {key: view for (kind, key), view in read.items() if kind is JOB_FLOWS and not isinstance(view, QueueView)}
    return replace(known, queues=_ReadQueues(known.queues, queues), flows=_ReadFlows(known.flows, flows))


class _NotedQueues:
    __slots__ = ("_doubts", "_queues")

    def __init__(self, queues: QueueLookup, doubts: set[Doubt]) -> None:
        self._queues, self._doubts = queues, doubts

    def get(self, name: str) -> QueueView | None:
        view = self._queues.get(name)
        if name and (view is None or not view.is_open):
            self._doubts.add((QUEUES, Key("", name)))
        return view

    def children(self, name: str) -> Sequence[QueueView]:
        children = self._queues.children(name)
        self._doubts.update((QUEUES, Key("", child.name)) for child in children)
        return children

    def all(self) -> Sequence[QueueView]:
        return self._queues.all()


class _ReadQueues:
    __slots__ = ("_queues", "_read")

    def __init__(self, queues: QueueLookup, read: Mapping[str, QueueView | None]) -> None:
        self._queues, self._read = queues, read

    def get(self, name: str) -> QueueView | None:
        return self._read[name] if name in self._read else self._queues.get(name)

    def children(self, name: str) -> Sequence[QueueView]:
        return self._with_read(self._queues.children(name), parent=name)

    def all(self) -> Sequence[QueueView]:
        return self._with_read(self._queues.all())

    def _with_read(self, cached: Sequence[QueueView], *, parent: str | None = None) -> Sequence[QueueView]:
        read = (view for view in self._read.values() if view is not None and parent in (None, view.parent))
        return sorted((*(view for view in cached if view.name not in self._read), *read), key=attrgetter("name"))


class _NotedFlows:
    __slots__ = ("_doubts", "_flows")

    def __init__(self, flows: FlowLookup, doubts: set[Doubt]) -> None:
        self._flows, self._doubts = flows, doubts

    def using(self, namespace: str, template: str) -> Sequence[FlowView]:
        flows = self._flows.using(namespace, template)
        self._doubts.update((JOB_FLOWS, Key(namespace, flow.name)) for flow in flows if not flow.is_complete)
        return flows


class _ReadFlows:
    """Flows that use another template by now count as before: names tell who uses what, and they hardly ever change."""

    __slots__ = ("_flows", "_read")

    def __init__(self, flows: FlowLookup, read: Mapping[Key, FlowView | None]) -> None:
        self._flows, self._read = flows, read

    def using(self, namespace: str, template: str) -> Sequence[FlowView]:
        found = [self._read.get(Key(namespace, flow.name), flow) for flow in self._flows.using(namespace, template)]
        return [flow for flow in found if flow is not None]
