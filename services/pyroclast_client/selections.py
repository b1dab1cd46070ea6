"""A watch of selected objects of one kind, for one reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from pyroclast.api.types import ResourceType
from pyroclast.kube.basics.errors import ConnectionFailed
from pyroclast.kube.http.client import Client
from pyroclast.kube.watch.follower import Follower, Reader, json_changes


class SelectionWatch(Reader):
    """Lists a selection once and then watches it for ever. Delivers each version of an object once."""

    def __init__(self, client: Client, kind: ResourceType, namespace: str, query: Mapping[str, str]) -> None:
        self._client, self._kind, self._namespace, self._query = client, kind, namespace, query
        self._follower = Follower(client, kind, self, namespace=namespace, selectors=query)
        self._seen: set[tuple[str, str]] = set()
        self._deliver: Callable[[Mapping[str, Any]], None]

    async def run(self, deliver: Callable[[Mapping[str, Any]], None]) -> None:
        """Call `deliver` with each selected object that was created or changed.

        Raises:
            ApiError: the server refuses the list or the watch.
        """
        self._deliver = deliver
        await self._follower.run()

    async def read_list(self) -> None:
        """Deliver the listed objects."""
        body = orjson.loads(await self._client.list_page(self._kind, self._namespace, self._query))
        self._follower.version = body["metadata"]["resourceVersion"]
        for item in body.get("items") or ():
            self._once(item)

    async def take(self, lines: list[bytes]) -> None:
        """Deliver the changed objects."""
        for change, item in json_changes(lines):
            self._follower.version = item["metadata"]["resourceVersion"]
            if change in {"ADDED", "MODIFIED"}:
                self._once(item)

    def failed(self, error: Exception) -> None:
        """Continue after a broken connection."""
        if not isinstance(error, ConnectionFailed | TimeoutError):
            raise error

    def _once(self, item: Mapping[str, Any]) -> None:
        mark = (item["metadata"]["uid"], item["metadata"]["resourceVersion"])
        if mark not in self._seen:
            self._seen.add(mark)
            self._deliver(item)
