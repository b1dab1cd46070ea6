"""A watch of selected objects of one kind, for one reader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any, Final

import orjson

from pyroclast.api.types import ResourceType
from pyroclast.kube.basics.errors import ApiError, ConnectionFailed, Expired
from pyroclast.kube.http.client import Client

PAUSE: Final = 0.5
SILENCE_SECONDS: Final = 330.0


class SelectionWatch:
    """Lists a selection once and then watches it for ever. Delivers each version of an object once.

    After a broken connection, the watch continues at the last resourceVersion.
    """

    def __init__(self, client: Client, kind: ResourceType, namespace: str, query: Mapping[str, str]) -> None:
        self._client, self._kind, self._namespace, self._query = client, kind, namespace, query
        self._version = ""
        self._seen: set[tuple[str, str]] = set()

    async def run(self, take: Callable[[Mapping[str, Any]], None]) -> None:
        """Call `take` with each selected object that was created or changed."""
        while True:
            try:
                if not self._version:
                    await self._list(take)
                await self._watch(take)
            except Expired:
                self._version = ""
            except ConnectionFailed:
                await asyncio.sleep(PAUSE)

    async def _list(self, take: Callable[[Mapping[str, Any]], None]) -> None:
        body = orjson.loads(await self._client.list_page(self._kind, self._namespace, self._query))
        self._version = body["metadata"]["resourceVersion"]
        for item in body.get("items") or ():
            self._once(item, take)

    async def _watch(self, take: Callable[[Mapping[str, Any]], None]) -> None:
        where = {**self._query, "resourceVersion": self._version, "allowWatchBookmarks": "true"}
        async with aclosing(self._client.watch(self._kind, self._namespace, where, silence=SILENCE_SECONDS)) as batches:
            async for lines in batches:
                for line in lines:
                    event = orjson.loads(line)
                    body = event["object"]
                    if event["type"] == "ERROR":
                        raise ApiError.from_status(int(body.get("code") or 0), body)
                    self._version = body["metadata"]["resourceVersion"]
                    if event["type"] in {"ADDED", "MODIFIED"}:
                        self._once(body, take)

    def _once(self, item: Mapping[str, Any], take: Callable[[Mapping[str, Any]], None]) -> None:
        mark = (item["metadata"]["uid"], item["metadata"]["resourceVersion"])
        if mark not in self._seen:
            self._seen.add(mark)
            take(item)
