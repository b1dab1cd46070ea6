"""Secrets of clients that died between a Secret and its Job: removed by a later submission, where the account may do so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pyroclast.api.types import SECRETS, Key
from pyroclast.kube.basics.errors import Conflict, Forbidden, NotFound
from pyroclast.kube.http.client import Client
from pyroclast.lifecycle.times import parse_time
from pyroclast_client.labels import PAYLOAD

__all__ = ["orphans", "remove_orphans"]

OLD_SECONDS: Final = 3600.0
"""A Secret gets its owner within seconds of its making."""


def orphans(secrets: Iterable[Mapping[str, Any]], now: float) -> list[Mapping[str, Any]]:
    """The Secrets that nothing owns an hour after they were made. `now`: seconds since the epoch."""
    return [
        each["metadata"]
        for each in secrets
        if not each["metadata"].get("ownerReferences") and now - parse_time(each["metadata"]["creationTimestamp"]) > OLD_SECONDS
    ]


async def remove_orphans(kube: Client, namespace: str) -> int:
    """Delete them; how many. An account that may not list or delete Secrets leaves them to one that may."""
    removed = 0
    try:
        found, _ = await kube.list(SECRETS, namespace, label_selector=f"{PAYLOAD}=true")
        for metadata in orphans(found, kube.now()):
            try:
                await kube.delete(SECRETS, Key(namespace, metadata["name"]), uid=metadata["uid"])
                removed += 1
            except (NotFound, Conflict):
                continue  # another client was faster, or it is another Secret by now
    except Forbidden:
        return removed
    return removed
