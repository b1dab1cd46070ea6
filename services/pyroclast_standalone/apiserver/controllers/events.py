"""Events: one collection in the two forms `v1` and `events.k8s.io/v1`, deleted after an hour, and the server's own events."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any, Final

from pyroclast_standalone import times
from pyroclast_standalone.apiserver.kinds.access import RENAMED
from pyroclast_standalone.apiserver.storage import objectmeta
from pyroclast_standalone.apiserver.storage.registry import Registry, Resource
from pyroclast_standalone.apiserver.storage.store import Store, Stored

_LIFETIME: Final = 3600.0  # seconds
_SWEEP_SECONDS: Final = 60.0


def from_core(body: dict[str, Any]) -> dict[str, Any]:
    """Convert a core event to `events.k8s.io/v1`."""
    body["apiVersion"] = "events.k8s.io/v1"
    for core, new in RENAMED.items():
        if core in body:
            body[new] = body.pop(core)
    return body


def to_core(body: dict[str, Any]) -> dict[str, Any]:
    """Convert an `events.k8s.io/v1` event to a core event."""
    body["apiVersion"] = "v1"
    for core, new in RENAMED.items():
        if new in body:
            body[core] = body.pop(new)
    return body


VIEWS: Final = {"events.k8s.io/v1/events": (from_core, to_core)}


class EventTeller:
    """Records events about objects."""

    def __init__(self, store: Store, registry: Registry, component: str, now: Callable[[], float]) -> None:
        self._store = store
        self._events = registry.require("", "v1", "events")
        self._component = component
        self._now = now

    def tell(self, resource: Resource, about: Stored, reason: str, message: str, *, kind: str = "Warning") -> None:
        """Record an event about an object, once for each reason and object."""
        now = self._now()
        namespace = about.namespace or "default"
        name = f"{about.name}.{uuid.uuid5(uuid.NAMESPACE_OID, about.uid + reason).hex[:16]}"
        key = f"{namespace}/{name}"
        if key in self._events.collection.items:
            return
        metadata = {"name": name, "namespace": namespace}
        objectmeta.complete(metadata, now)
        body = {
            "metadata": metadata,
            "involvedObject": {
                "kind": resource.kind,
                "namespace": about.namespace,
                "name": about.name,
                "uid": about.uid,
                "apiVersion": resource.api_version,
                "resourceVersion": str(about.revision),
            },
            "reason": reason,
            "message": message,
            "source": {"component": self._component},
            "firstTimestamp": times.rfc3339(now),
            "lastTimestamp": times.rfc3339(now),
            "count": 1,
            "type": kind,
            "eventTime": None,
            "reportingComponent": self._component,
            "reportingInstance": "",
        }
        self._store.put(self._events.collection, key, objectmeta.ordered(body, "Event", "v1"))


async def expire(store: Store, now: Callable[[], float]) -> None:
    """Delete events an hour after their last write, until cancelled."""
    collection = store.collection("events")
    seen: dict[str, tuple[int, float]] = {}
    while True:
        moment = now()
        fresh: dict[str, tuple[int, float]] = {}
        for stored in list(collection.select()):
            revision, since = seen.get(stored.key, (0, 0.0))
            if revision != stored.revision:
                since = moment
            if moment - since >= _LIFETIME:
                store.delete(collection, stored.key)
            else:
                fresh[stored.key] = (stored.revision, since)
        seen = fresh
        await asyncio.sleep(_SWEEP_SECONDS)
