"""The queues for the rules: the records of an informer, and single queues read from the API server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Final

from pyroclast.api.keys import HIERARCHY, HIERARCHY_WEIGHTS, QUEUE_NAMESPACES, QUEUE_PERSON_LIMITS
from pyroclast.api.records import Queue, reading
from pyroclast.api.types import QUEUES
from pyroclast.kube.http.client import Client
from pyroclast.kube.watch.informer import Informer
from pyroclast.rules.lookups import NotedQueues, QueueLookup, QueueView, ReadQueues, namespaces_in
from pyroclast.rules.values import amount
from pyroclast.rules.verdicts import Verdict

_MOST_READ: Final = 32
"""The most queues that are read before a denial. When a denial depends on more queues, the cache decides."""


def queue_view(queue: Queue) -> QueueView:
    """Return the fields of a Queue record that the rules read."""
    annotations = queue.metadata.annotations
    pods = amount((queue.status.allocated or {}).get("pods"))
    return QueueView(
        name=queue.metadata.name,
        parent=queue.spec.parent,
        state=queue.status.state or "",
        hierarchy=annotations.get(HIERARCHY, ""),
        hierarchy_weights=annotations.get(HIERARCHY_WEIGHTS, ""),
        capability=queue.spec.capability or {},
        deserved=queue.spec.deserved or {},
        guarantee=queue.spec.guarantee.resource or {},
        allocated_pods=pods.value if pods is not None else 0,
        namespaces=namespaces_in(annotations.get(QUEUE_NAMESPACES)),
        person_limits=annotations.get(QUEUE_PERSON_LIMITS),
    )


class QueueCache:
    """The queues, by name and by parent.

    Other threads may read this cache: collections over which a reader iterates are replaced and never changed.
    """

    def __init__(self, informer: Informer[Queue]) -> None:
        self.informer = informer
        self._views: dict[str, QueueView] = {}
        self._children: dict[str, dict[str, QueueView]] = {}
        self.informer.on_change(self._changed)

    def get(self, name: str) -> QueueView | None:
        """Return the queue of that name; None when there is none."""
        return self._views.get(name)

    def children(self, name: str) -> Sequence[QueueView]:
        """Return the children of that queue, ordered by name."""
        return sorted(self._children.get(name, {}).values(), key=attrgetter("name"))

    def all(self) -> Sequence[QueueView]:
        """Return all queues."""
        return list(self._views.values())

    def put(self, view: QueueView) -> None:
        """Add or replace a queue."""
        self.remove(view.name)
        self._views[view.name] = view
        self._children[view.parent] = {**self._children.get(view.parent, {}), view.name: view}

    def remove(self, name: str) -> None:
        """Remove a queue."""
        old = self._views.pop(name, None)
        if old is not None:
            siblings = self._children.get(old.parent, {})
            self._children[old.parent] = {sibling: view for sibling, view in siblings.items() if sibling != name}

    def _changed(self, old: Queue | None, new: Queue | None) -> None:
        if new is not None:
            self.put(queue_view(new))
        elif old is not None:
            self.remove(old.metadata.name)


async def judged(rule: Callable[[QueueLookup], Verdict], queues: QueueLookup, client: Client) -> Verdict:
    """Return the verdict of `rule`.

    Before a denial, the queues on which the denial may depend are read from the API server, because the cache may be out of date.
    """
    doubts: set[str] = set()
    verdict = rule(NotedQueues(queues, doubts.add))
    if verdict.allowed or not 0 < len(doubts) <= _MOST_READ:
        return verdict
    names = sorted(doubts)
    found = await asyncio.gather(*(_read(client, name) for name in names))
    return rule(ReadQueues(queues, dict(zip(names, found, strict=True))))


async def _read(client: Client, name: str) -> QueueView | None:
    # the service account may list queues, but not get a queue
    items, _ = await client.list(QUEUES, field_selector=f"metadata.name={name}")
    return queue_view(reading.convert(items[0], Queue)) if items else None
