"""One watch of one kind in one namespace, which all handles of a client share. Keeps a copy of the followed objects."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final, TypeAlias

import orjson

from pyroclast.api.types import Key, ResourceType
from pyroclast.kube.basics.errors import ApiError, ConnectionFailed, Forbidden, KubeError, NotFound, Unauthorized
from pyroclast.kube.http.client import Client
from pyroclast.kube.watch.follower import JsonReader, Timing


class SelectionWatch(JsonReader):
    """Lists a selection once and then watches it for ever. Delivers each version of an object once."""

    def __init__(self, client: Client, kind: ResourceType, namespace: str, query: Mapping[str, str]) -> None:
        super().__init__(client, kind, namespace=namespace, selectors=query)
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
        body = orjson.loads(await self._client.list_page(self._kind, self._namespace, self._selectors))
        self._follower.version = body["metadata"]["resourceVersion"]
        for item in body.get("items") or ():
            self._once(item)

    async def take(self, lines: list[bytes]) -> None:
        """Deliver the changed objects."""
        for change, item in self._changes(lines):
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


Object: TypeAlias = dict[str, Any]

TIMING: Final = Timing(first_pause=0.1, longest_pause=10.0)
HOPELESS: Final = (Forbidden, Unauthorized, NotFound)


class Watcher(JsonReader):
    """Follows objects by name over a single connection.

    A broken watch continues at its last resourceVersion. When the server no longer has that version, the followed objects are
    listed again. Each change is delivered once: an object is delivered again only when its resourceVersion changes.
    """

    def __init__(self, client: Client, kind: ResourceType, namespace: str) -> None:
        super().__init__(client, kind, namespace=namespace, timing=TIMING)
        self._readers: dict[str, set[asyncio.Queue[Object | None]]] = {}
        self._known: dict[str, Object | None] = {}
        self._task: asyncio.Task[None] | None = None
        self._open = asyncio.Event()
        self._failure: KubeError | None = None

    async def follow(self, name: str) -> AsyncGenerator[Object | None]:
        """Yield the present object, then each change. None means that the object does not exist. Close the generator after use.

        Raises:
            KubeError: the server allows no watch.
        """
        reader: asyncio.Queue[Object | None] = asyncio.Queue()
        self._readers.setdefault(name, set()).add(reader)
        try:
            await self._started()
            if name not in self._known:
                await self._read(name)
            if reader.empty():
                reader.put_nowait(self._known[name])
            while True:
                change = await reader.get()
                if self._failure is not None:
                    raise self._failure
                yield change
        finally:
            self._leave(name, reader)

    async def until(self, name: str, holds: Callable[[Object | None], bool]) -> Object | None:
        """Return the object as soon as `holds` returns True for it."""
        async with aclosing(self.follow(name)) as changes:
            async for each in changes:
                if holds(each):
                    return each
        raise ConnectionFailed("the watch has ended")

    @property
    def has_failed(self) -> bool:
        """Whether the server refused the watch. A new watcher may succeed."""
        return self._failure is not None

    async def close(self) -> None:
        """Close the connection of the watch."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def _leave(self, name: str, reader: asyncio.Queue[Object | None]) -> None:
        self._readers[name].discard(reader)
        if not self._readers[name]:
            del self._readers[name]
            self._known.pop(name, None)

    async def _started(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
        await self._open.wait()
        if self._failure is not None:
            raise self._failure

    async def _read(self, name: str) -> None:
        """Read an object for the first time. If the watch has delivered the object meanwhile, the delivered version is kept."""
        try:
            found: Object | None = await self._client.get(self._kind, Key(self._namespace, name))
        except NotFound:
            found = None
        if name not in self._known:
            self._known[name] = found
            for reader in self._readers[name]:
                reader.put_nowait(found)

    def _tell(self, name: str, found: Object | None) -> None:
        if name not in self._readers:
            return
        if name in self._known and _version(found) == _version(self._known[name]):
            return
        self._known[name] = found
        for reader in self._readers[name]:
            reader.put_nowait(found)

    async def _run(self) -> None:
        try:
            await self._follower.run()
        except KubeError as error:
            self._fail(error)

    def accepted(self) -> None:
        """Let the readers begin: the watch is open."""
        self._open.set()

    def failed(self, error: Exception) -> None:
        """Try again, unless the server refuses for good or never answered: then its readers get the error at once."""
        is_first = not self._open.is_set() and isinstance(error, ConnectionFailed)
        if is_first or isinstance(error, HOPELESS) or not isinstance(error, ApiError | ConnectionFailed | TimeoutError):
            raise error

    def _fail(self, error: KubeError) -> None:
        self._failure = error
        self._open.set()
        for readers in self._readers.values():
            for reader in readers:
                reader.put_nowait(None)  # makes the reader raise the failure

    async def read_list(self) -> None:
        """Read the current resourceVersion. Then read the followed objects again, because changes were missed."""
        version = await self._latest_version()
        if self._known:
            items, version = await self._client.list(self._kind, self._namespace)
            found = {item["metadata"]["name"]: item for item in items}
            for name in list(self._known):
                self._tell(name, found.get(name))
        self._follower.version = version

    async def take(self, lines: list[bytes]) -> None:
        """Pass the changes of followed objects on."""
        for change, body in self._changes(lines):
            name = body["metadata"].get("name", "")
            if change != "BOOKMARK" and not _is_older(body, self._known.get(name)):
                self._tell(name, None if change == "DELETED" else {**_typed(self._kind), **body})


def _version(found: Object | None) -> str:
    return "" if found is None else str(found["metadata"]["resourceVersion"])


def _is_older(found: Object, known: Object | None) -> bool:
    """Whether a watch event is older than the object that was read. Servers number their versions in order."""
    before, now = _version(found), _version(known)
    return before.isdigit() and now.isdigit() and int(before) < int(now)


def _typed(kind: ResourceType) -> Object:
    return {"apiVersion": kind.api_version, "kind": kind.kind}
