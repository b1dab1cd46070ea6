"""Follows one kind by list, watch and relist: the one loop behind informers, the recorder, the Python client and `vcctl -w`.

A watch continues a list at its resourceVersion, but no watch lasts: the server ends it after the requested time, has forgotten
the version (410 Expired) or refuses, or the connection breaks. A server that comes back from a backup has a shorter history. A
watch from a version that it has not reached would be silent for ever; once the version is reached again, earlier differences
would be missed. So after a lost connection the history is checked before the watch continues.

Invariant: each change up to `version` was passed to the reader. Bounds: a dead watch is noticed `slack` seconds after the
requested time, and the next attempt begins at most `longest_pause` seconds after a failure.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from pyroclast.api.types import ResourceType
from pyroclast.kube.basics.errors import ApiError, Expired
from pyroclast.kube.basics.retry import jittered_backoff
from pyroclast.resources.backoff import Backoff

if TYPE_CHECKING:
    from pyroclast.kube.http.client import Client  # the command line imports the client only where a command needs a cluster


@dataclass(frozen=True, slots=True)
class Timing:
    """The time limits of a follower, in seconds.

    Attributes:
        watch: the server is asked to end each watch after a random time in this range, so that a dead watch is noticed.
        slack: how much later than that the follower itself ends the watch.
        list_timeout: the longest time for one part of the list, retries included.
        settled: a watch that ended sooner counts as a failure, even if it had events.
        first_pause: the pause before the first retry; later pauses double up to `longest_pause`.
        longest_pause: the longest pause between two attempts.
    """

    watch: tuple[float, float] = (120.0, 240.0)
    slack: float = 15.0
    list_timeout: float = 30.0
    settled: float = 5.0
    first_pause: float = 0.2
    longest_pause: float = 30.0


class Reader:
    """What a follower calls. A reader sets `Follower.version` to the version up to which it has read."""

    async def prepare(self) -> None:
        """Prepare an attempt: the follower then lists, unless it has a version, and watches."""

    async def is_continued(self) -> bool:
        """Whether the server still has the history up to the version; called after a lost connection. If not, list anew."""
        return True

    async def read_list(self) -> None:
        """Read the whole list."""
        raise NotImplementedError

    async def take(self, lines: list[bytes]) -> None:
        """Handle lines of the watch that arrived together."""
        raise NotImplementedError

    async def expired(self) -> None:
        """Handle that the server has forgotten the version. Without another version afterwards, the list is read."""

    def accepted(self) -> None:
        """Note that the server answered a list or a watch."""

    def failed(self, error: Exception) -> None:
        """Handle a failure; the follower tries again after a pause. An error that this method raises ends the follower."""
        raise error


class Follower:
    """Lists and watches one kind for its reader, until cancelled.

    `reader`: receives the list and the lines of the watches. `version`: the version at which the first watch begins; empty to
    begin with a list.
    """

    def __init__(
        self,
        client: Client,
        kind: ResourceType,
        reader: Reader,
        *,
        namespace: str = "",
        selectors: Mapping[str, str] | None = None,
        timing: Timing | None = None,
        version: str = "",
    ) -> None:
        self.kind, self.version = kind, version
        self.is_doubtful = bool(version)
        """Whether the server may have lost versions: the connection was lost, or the version is from an earlier process."""
        self._client, self._reader, self._namespace, self._selectors = client, reader, namespace, selectors or {}
        self._timing = timing or Timing()
        self._overdue_at: float | None = None
        self._unheard_since: float | None = None

    async def run(self) -> None:
        """List and watch, until cancelled or until the reader gives up."""
        backoff = jittered_backoff(self._timing.first_pause, self._timing.longest_pause)
        try:
            while True:
                pause = await self._attempt(backoff)
                self.expect_within(pause)
                await asyncio.sleep(pause)
        finally:
            self._overdue_at = None

    def stalled_for(self) -> float:
        """Return the seconds for which progress of list and watch has been overdue; an idle watch is not overdue."""
        return 0.0 if self._overdue_at is None else max(0.0, asyncio.get_running_loop().time() - self._overdue_at)

    def unheard_for(self) -> float:
        """Return the seconds since the server stopped answering or began to refuse; 0 while the reader is up to date."""
        return 0.0 if self._unheard_since is None else asyncio.get_running_loop().time() - self._unheard_since

    def expect_within(self, seconds: float) -> None:
        """Expect the next progress within so many seconds; later than that, the follower counts as stalled."""
        self._overdue_at = asyncio.get_running_loop().time() + seconds

    async def _attempt(self, backoff: Backoff) -> float:
        """Check the history and list, if needed, then watch; return the seconds to wait before the next attempt."""
        try:
            await self._reader.prepare()
            if self.version and self.is_doubtful:
                self.expect_within(self._timing.list_timeout)
                if not await self._reader.is_continued():
                    self.version = ""
                self.is_doubtful = False
            if not self.version:
                self.expect_within(self._timing.list_timeout)
                await self._reader.read_list()
                self.is_doubtful = False
                self._accepted()
            return 0.0 if await self._watch(backoff) else backoff.next()
        except Expired:
            self.version = ""
            await self._reader.expired()
        except Exception as error:  # noqa: BLE001 - the reader decides which errors end the follower
            if self._unheard_since is None:
                self._unheard_since = asyncio.get_running_loop().time()
            self.is_doubtful = self.is_doubtful or not isinstance(error, ApiError)
            self._reader.failed(error)
            asked = getattr(error, "retry_after", None) or 0.0
            return max(backoff.next(), min(asked, self._timing.longest_pause))
        return backoff.next()

    async def _watch(self, backoff: Backoff) -> bool:
        """Follow one watch to its end; return whether it was long enough to count as a success."""
        seconds = random.uniform(*self._timing.watch)  # noqa: S311 - not a secret
        query = {
            **self._selectors,
            "resourceVersion": self.version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(math.ceil(seconds)),
        }
        loop = asyncio.get_running_loop()
        began, limit = loop.time(), seconds + self._timing.slack
        watch = self._client.watch(self.kind, self._namespace, query, silence=limit)
        try:
            async with asyncio.timeout(limit), aclosing(watch) as batches:
                self.expect_within(limit)
                async for lines in batches:
                    if lines:
                        await self._reader.take(lines)
                    else:
                        self._accepted()
        finally:
            is_settled = loop.time() - began >= self._timing.settled
            if is_settled:
                backoff.reset()
        return is_settled

    def _accepted(self) -> None:
        self._unheard_since = None
        self._reader.accepted()


class JsonReader(Reader):
    """A reader of objects as JSON, for programs that need no records. Arguments: see `Follower`."""

    def __init__(
        self,
        client: Client,
        kind: ResourceType,
        *,
        namespace: str = "",
        selectors: Mapping[str, str] | None = None,
        timing: Timing | None = None,
    ) -> None:
        self._client, self._kind, self._namespace, self._selectors = client, kind, namespace, selectors or {}
        self._follower = Follower(client, kind, self, namespace=namespace, selectors=selectors, timing=timing)

    async def is_continued(self) -> bool:
        """Whether the latest version of the server is not before ours, as after a restore from a backup."""
        latest, ours = await self._latest_version(), self._follower.version
        return not (latest.isdecimal() and ours.isdecimal() and int(latest) < int(ours))

    async def _latest_version(self) -> str:
        """Return the resourceVersion from which a watch delivers all later changes."""
        page = await self._client.list_page(self._kind, self._namespace, {**self._selectors, "limit": "1"})
        return str((orjson.loads(page).get("metadata") or {}).get("resourceVersion") or "")

    def _changes(self, lines: Iterable[bytes]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the type and the object of each watch event, and advance the version.

        Raises ApiError: the server ended the watch.
        """
        for line in lines:
            event = orjson.loads(line)
            body = event["object"]
            if event["type"] == "ERROR":
                raise ApiError.from_status(int(body.get("code") or 0), body, verb="watch")
            self._follower.version = body["metadata"]["resourceVersion"]
            yield event["type"], body
