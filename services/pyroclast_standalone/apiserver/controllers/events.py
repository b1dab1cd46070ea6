"""Events: one collection in the two forms `v1` and `events.k8s.io/v1`, deleted after an hour, and the server's own events."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

from pyroclast_standalone import times
from pyroclast_standalone.apiserver.kinds.access import RENAMED
from pyroclast_standalone.apiserver.storage import objectmeta
from pyroclast_standalone.apiserver.storage.registry import Resource, View
from pyroclast_standalone.apiserver.storage.store import Store, Stored

_LIFETIME: Final = 3600.0  # seconds
_SWEEP_SECONDS: Final = 60.0


def _renaming(api_version: str, names: Mapping[str, str]) -> View:
    """Return a function that converts an event to `api_version`, with other names of some fields."""

    def convert(body: dict[str, Any]) -> dict[str, Any]:
        body["apiVersion"] = api_version
        body |= {new: body.pop(old) for old, new in names.items() if old in body}
        return body

    return convert


_TO_CORE: Final = _renaming("v1", {new: core for core, new in RENAMED.items()})
VIEWS: Final = {"events.k8s.io/v1/events": (_renaming("events.k8s.io/v1", RENAMED), _TO_CORE)}


def tell(store: Store, resource: Resource, about: Stored, reason: str, message: str, *, component: str, now: float) -> None:
    """Record a normal event of `component` about an object, once for each reason and object."""
    events, namespace = store.collection("events"), about.namespace or "default"
    name = f"{about.name}.{uuid.uuid5(uuid.NAMESPACE_OID, about.uid + reason).hex[:16]}"
    key = f"{namespace}/{name}"
    if key in events.items:
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
        "source": {"component": component},
        "firstTimestamp": times.rfc3339(now),
        "lastTimestamp": times.rfc3339(now),
        "count": 1,
        "type": "Normal",
        "eventTime": None,
        "reportingComponent": component,
        "reportingInstance": "",
    }
    store.put(events, key, objectmeta.ordered(body, "Event", "v1"))


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
