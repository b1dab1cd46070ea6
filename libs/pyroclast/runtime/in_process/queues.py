"""The queues as the rules see them: what an informer holds, and one as it is now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Final

import msgspec

from pyroclast.api.keys import HIERARCHY, HIERARCHY_WEIGHTS
from pyroclast.api.records import Queue
from pyroclast.api.types import QUEUES
from pyroclast.kube.http.client import Client
from pyroclast.kube.watch.informer import Informer
from pyroclast.rules.amounts import amount
from pyroclast.rules.fresh_queues import NotedQueues, ReadQueues
from pyroclast.rules.lookups import QueueLookup, QueueView
from pyroclast.rules.verdicts import Verdict

__all__ = ["QueueCache", "judged", "queue_view"]

_MOST_READ: Final = 32
"""Queues that are read before a denial; where it may rest on more, the cache decides."""


def queue_view(queue: Queue) -> QueueView:
    """What the rules see of a queue that an informer holds."""
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
    )


class QueueCache:
    """The queues, by name and by parent. May be read in another thread: what readers iterate over is replaced, never changed."""

    def __init__(self, informer: Informer[Queue]) -> None:
        self.informer = informer
        self._views: dict[str, QueueView] = {}
        self._children: dict[str, dict[str, QueueView]] = {}
        self.informer.on_change(self._changed)

    def get(self, name: str) -> QueueView | None:
        """The queue of that name."""
        return self._views.get(name)

    def children(self, name: str) -> Sequence[QueueView]:
        """The queues below that one, ordered by name."""
        return sorted(self._children.get(name, {}).values(), key=attrgetter("name"))

    def all(self) -> Sequence[QueueView]:
        """Every queue."""
        return list(self._views.values())

    def put(self, view: QueueView) -> None:
        """Take a queue as it is now."""
        self.remove(view.name)
        self._views[view.name] = view
        self._children[view.parent] = {**self._children.get(view.parent, {}), view.name: view}

    def remove(self, name: str) -> None:
        """Forget a queue."""
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
    """The verdict of `rule`; before a denial the queues that it may rest on are read, as the cache may lag behind.

    Raises:
        KubeError: they could not be read.
    """
    doubts: set[str] = set()
    verdict = rule(NotedQueues(queues, doubts.add))
    if verdict.allowed or not 0 < len(doubts) <= _MOST_READ:
        return verdict
    names = sorted(doubts)
    found = await asyncio.gather(*(_read(client, name) for name in names))
    return rule(ReadQueues(queues, dict(zip(names, found, strict=True))))


async def _read(client: Client, name: str) -> QueueView | None:
    items, _ = await client.list(QUEUES, field_selector=f"metadata.name={name}")  # accounts may list queues, not get one
    return queue_view(msgspec.convert(items[0], Queue)) if items else None
