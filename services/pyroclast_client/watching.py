"""One watch of one kind in one namespace, which all handles of a client share. Keeps a copy of the followed objects."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Final, TypeAlias

import orjson

from pyroclast.api.types import Key, ResourceType
from pyroclast.kube.basics.errors import ApiError, ConnectionFailed, Expired, Forbidden, KubeError, NotFound, Unauthorized
from pyroclast.kube.http.client import Client

Object: TypeAlias = dict[str, Any]

SILENCE_SECONDS: Final = 330.0
WATCH_SECONDS: Final = 300
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 10.0
HOPELESS: Final = (Forbidden, Unauthorized, NotFound)


class Follower:
    """The changes of one object, for one reader. None in the queue means that the object was deleted."""

    def __init__(self) -> None:
        self._changes: asyncio.Queue[Object | None] = asyncio.Queue()
        self.is_told = False

    def tell(self, found: Object | None) -> None:
        """Put the current object into the queue."""
        self.is_told = True
        self._changes.put_nowait(found)

    async def next(self) -> Object | None:
        """Return the next change."""
        return await self._changes.get()


class Watcher:
    """Follows objects by name over a single connection.

    A broken watch continues at its last resourceVersion. When the server no longer has that version, the followed objects are
    listed again. Each change is delivered once: an object is delivered again only when its resourceVersion changes.
    """

    def __init__(self, client: Client, kind: ResourceType, namespace: str) -> None:
        self._client, self._kind, self._namespace = client, kind, namespace
        self._followers: dict[str, set[Follower]] = {}
        self._known: dict[str, Object | None] = {}
        self._task: asyncio.Task[None] | None = None
        self._open = asyncio.Event()
        self._version = ""
        self._failure: KubeError | None = None

    async def follow(self, name: str) -> AsyncGenerator[Object | None]:
        """Yield the present object, then each change. None means that the object does not exist. Close the generator after use.

        Raises:
            KubeError: the server allows no watch.
        """
        follower = Follower()
        self._followers.setdefault(name, set()).add(follower)
        try:
            await self._started()
            if name not in self._known:
                await self._read(name)
            if not follower.is_told:
                follower.tell(self._known[name])
            while True:
                change = await follower.next()
                if self._failure is not None:
                    raise self._failure
                yield change
        finally:
            self._leave(name, follower)

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

    def _leave(self, name: str, follower: Follower) -> None:
        self._followers[name].discard(follower)
        if not self._followers[name]:
            del self._followers[name]
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
            for follower in self._followers[name]:
                follower.tell(found)

    def _tell(self, name: str, found: Object | None) -> None:
        if name not in self._followers:
            return
        if name in self._known and _version(found) == _version(self._known[name]):
            return
        self._known[name] = found
        for follower in self._followers[name]:
            follower.tell(found)

    async def _run(self) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                if not self._version:
                    await self._begin()
                async with aclosing(self._batches()) as batches:
                    async for lines in batches:
                        pause = FIRST_PAUSE
                        self._open.set()
                        for line in lines:
                            self._take(orjson.loads(line))
            except Expired:
                self._version = ""
            except HOPELESS as error:
                self._fail(error)
                return
            except (ApiError, ConnectionFailed) as error:
                if not self._open.is_set() and isinstance(error, ConnectionFailed):
                    self._fail(error)  # the server never answered: report the error to the readers at once
                    return
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    def _fail(self, error: KubeError) -> None:
        self._failure = error
        self._open.set()
        for followers in self._followers.values():
            for follower in followers:
                follower.tell(None)  # makes the follower raise the failure

    async def _begin(self) -> None:
        """Read the current resourceVersion. Then read the followed objects again, because changes were missed."""
        body = orjson.loads(await self._client.list_page(self._kind, self._namespace, {"limit": "1"}))
        self._version = str((body.get("metadata") or {}).get("resourceVersion") or "")
        if not self._known:
            return
        items, self._version = await self._client.list(self._kind, self._namespace)
        found = {item["metadata"]["name"]: item for item in items}
        for name in list(self._known):
            self._tell(name, found.get(name))

    def _batches(self) -> AsyncGenerator[list[bytes]]:
        query = {"resourceVersion": self._version, "allowWatchBookmarks": "true", "timeoutSeconds": str(WATCH_SECONDS)}
        return self._client.watch(self._kind, self._namespace, query, silence=SILENCE_SECONDS)

    def _take(self, event: Object) -> None:
        body = event["object"]
        if event["type"] == "ERROR":
            raise ApiError.from_status(int(body.get("code") or 0), body, verb="GET", path=self._kind.path(self._namespace))
        self._version = body["metadata"]["resourceVersion"]
        name = body["metadata"].get("name", "")
        if event["type"] == "BOOKMARK" or _is_older(body, self._known.get(name)):
            return
        self._tell(name, None if event["type"] == "DELETED" else {**_typed(self._kind), **body})


def _version(found: Object | None) -> str:
    return "" if found is None else str(found["metadata"]["resourceVersion"])


def _is_older(found: Object, known: Object | None) -> bool:
    """Whether a watch event is older than the object that was read. Servers number their versions in order."""
    before, now = _version(found), _version(known)
    return before.isdigit() and now.isdigit() and int(before) < int(now)


def _typed(kind: ResourceType) -> Object:
    return {"apiVersion": kind.api_version, "kind": kind.kind}
