"""Follows one kind for its sink: a list only when necessary, and a watch that resumes at the cursor in the database."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Final, Generic, Protocol, TypeVar

import structlog

from pyroclast.api.records.meta import Record
from pyroclast.api.types import ResourceType
from pyroclast.kube.basics.errors import ApiError, KubeError
from pyroclast.kube.http.client import Client
from pyroclast.kube.http.native_groups import LOOK_SECONDS
from pyroclast.kube.watch.decode import Bookmark, Decoder, Partial, Undecodable
from pyroclast.kube.watch.follower import Follower, Reader, Timing
from pyroclast.kube.watch.listing import Listing
from pyroclast_recorder.database.batches import Cursor
from pyroclast_recorder.database.connections import DatabaseUnavailable

log = structlog.get_logger()

T = TypeVar("T", bound=Record)
T_contra = TypeVar("T_contra", bound=Record, contravariant=True)

LIST_SECONDS: Final = 30.0
"""The longest time for one part of a list."""

EPOCH_BITS: Final = 52
"""The bits of a version below the epoch. No history has so many revisions."""


class Sink(Protocol[T_contra]):
    """The receiver of the objects of one kind. Each method may wait while the database is behind."""

    async def take(self, record: T_contra, version: int, now: int, *, is_deleted: bool) -> None:
        """Handle an added, updated or deleted object. `now`: the time in seconds by the clock of the API server."""

    async def take_list(self, uids: set[str], since: int | None, began: int, now: int, version: int | None = None) -> None:
        """Handle a complete list. Known objects that are not in the list were deleted between `since` and `now`.

        The listed objects existed when the list `began`. `since` is None when no objects were known before. `version`: the
        version of the list. Objects that are seen in a larger version are there, although the list does not have them.
        """

    async def tell_gap(self, cursor: Cursor, now: int, why: str) -> None:
        """Handle a gap: the events between `cursor` and `now` are lost."""

    async def move(self, cursor: Cursor) -> None:
        """Set the cursor: all events up to `cursor` were handled."""


class ListedSink:
    """The part of a `Sink` that remembers all objects: its stream begins with a list, so it loses nothing and has no cursor."""

    async def tell_gap(self, cursor: Cursor, now: int, why: str) -> None:
        """Do nothing: the next list has all objects."""

    async def move(self, cursor: Cursor) -> None:
        """Do nothing: the next recording replica lists all objects."""


def version_of(epoch: int, resource_version: str) -> int:
    """Return the version of an object. After a restore of the API server, each version is higher than all earlier versions."""
    number = int(resource_version) if resource_version.isdecimal() else 0
    return (epoch << EPOCH_BITS) + number % (1 << EPOCH_BITS)


class Stream(Reader, Generic[T]):
    """Lists and watches one kind, until cancelled.

    Args:
        cursor: the position at which the watch resumes; None to begin with a list.
        spare: called once if the API server has dropped the events since `cursor`. Writes the rows that a standby kept, and
            returns the cursor at their end; None when the rows are not complete.
        on_incident: counts rare incidents: `relist`, `restored`, `reconnect`, `undecodable`, `left_out`, `refused`, `kept`.
        served: called before each watch; returns the kind as the API server serves it, or None while it is not served.
    """

    def __init__(
        self,
        client: Client,
        kind: ResourceType,
        record: type[T],
        sink: Sink[T],
        cursor: Cursor | None,
        *,
        on_incident: Callable[[str, str], None],
        spare: Callable[[Cursor], Awaitable[Cursor | None]] | None = None,
        served: Callable[[Client], Awaitable[ResourceType | None]] | None = None,
    ) -> None:
        self._client, self._sink = client, sink
        version = cursor.resource_version if cursor else ""
        self._follower = Follower(client, kind, self, timing=Timing(list_timeout=LIST_SECONDS), version=version)
        self._epoch = cursor.epoch if cursor else 0
        self._decoder = Decoder(record)
        self._listing = self._listing_of(kind)
        self._served = served
        self._cursor = cursor
        self._on_incident, self._spare = on_incident, spare
        self._complaint = ""

    async def run(self) -> None:
        """List and watch, until cancelled."""
        await self._follower.run()

    @property
    def complaint(self) -> str | None:
        """Why the kind cannot be followed now; None while it is followed."""
        return f"{self._kind.qualified} are not followed: {self._complaint}" if self._complaint else None

    async def prepare(self) -> None:
        """Wait until the API server serves the kind."""
        if self._served is None:
            return
        while (kind := await self._served(self._client)) is None:
            await asyncio.sleep(LOOK_SECONDS)
        self._follower.kind, self._listing = kind, self._listing_of(kind)

    async def is_continued(self) -> bool:
        """Begin a new epoch if the API server was restored from a backup, so that its history ends before our position."""
        page = await self._listing.page({"limit": "1"})
        latest, ours = page.resource_version, self._follower.version
        if latest.isdecimal() and ours.isdecimal() and int(latest) < int(ours):
            self._incident("restored")
            self._epoch += 1
            await self._lose_place(f"the API server's history went back from {ours} to {latest}")
            return False
        return True

    async def expired(self) -> None:
        """Resume at the end of the rows that a standby kept, if these are complete; else report the gap before the list."""
        spare, self._spare = self._spare, None
        end = await spare(self._cursor) if spare is not None and self._cursor is not None else None
        if end is None:
            self._incident("relist")
            await self._lose_place("the API server has forgotten what happened since")
            return
        self._incident("kept")
        log.info("recorder.kept_rows_used", kind=self._kind.qualified)
        await self._move(end.resource_version)

    def accepted(self) -> None:
        """Forget the last complaint."""
        self._complaint = ""

    def failed(self, error: Exception) -> None:
        """Log why the kind cannot be watched, once for each reason. The history is checked before the next watch."""
        match error:
            case KubeError():
                self._incident("refused" if isinstance(error, ApiError) else "reconnect")
                if str(error) != self._complaint:
                    self._complaint = str(error)
                    log.warning("recorder.not_followed", kind=self._kind.qualified, error=self._complaint)
            case DatabaseUnavailable():  # the objects that a list misses cannot be read, so list again
                log.warning("recorder.list_not_taken", kind=self._kind.qualified, error=str(error))
            case TimeoutError():
                pass
            case _:
                raise error
        self._follower.is_doubtful = True

    async def _lose_place(self, why: str) -> None:
        if self._cursor is not None and self._cursor.resource_version:
            log.warning("recorder.gap", kind=self._kind.qualified, why=why)
            await self._sink.tell_gap(self._cursor, self._now(), why)

    async def read_list(self) -> None:
        """Pass the whole list to the sink."""
        began = self._now()
        uids: set[str] = set()
        async with aclosing(self._listing.parts()) as parts:
            async for part in parts:
                if part.begins:
                    uids.clear()
                for item in part.items:
                    uids.add(item.metadata.uid)
                    await self._take(item, is_deleted=False)
        since = self._cursor.at if self._cursor else None
        await self._sink.take_list(uids, since, began, self._now(), version_of(self._epoch, self._listing.version))
        await self._move(self._listing.version)

    async def take(self, lines: list[bytes]) -> None:
        """Pass the changes to the sink, then its position."""
        for line in lines:
            await self._take_line(line)
        await self._move(self._follower.version)

    async def _take_line(self, line: bytes) -> None:
        change = self._decoder.change(line)
        if isinstance(change, Bookmark):
            self._follower.version = change.resource_version or self._follower.version
            return
        await self._take(change.object, is_deleted=change.type == "DELETED")
        self._follower.version = change.object.metadata.resource_version or self._follower.version

    async def _take(self, item: T | Partial[T] | Undecodable, *, is_deleted: bool) -> None:
        if isinstance(item, Undecodable | Partial):
            self._incident("undecodable")
            event = "recorder.undecodable" if isinstance(item, Undecodable) else "recorder.fields_undecodable"
            log.error(event, kind=self._kind.kind, key=str(item.key), error=item.error)
        if isinstance(item, Undecodable):
            return
        record = item.record if isinstance(item, Partial) else item
        version = version_of(self._epoch, record.metadata.resource_version)
        try:
            await self._sink.take(record, version, self._now(), is_deleted=is_deleted)
        except (KubeError, DatabaseUnavailable):
            raise
        except Exception:  # an object whose rows cannot be made must not stop the objects after it
            self._incident("left_out")
            log.exception("recorder.left_out", kind=self._kind.kind, key=str(record.key))

    async def _move(self, resource_version: str) -> None:
        self._follower.version, self._spare = resource_version, None
        self._cursor = Cursor(self._kind.qualified, resource_version, self._now(), self._epoch)
        await self._sink.move(self._cursor)

    @property
    def _kind(self) -> ResourceType:
        return self._follower.kind

    def _listing_of(self, kind: ResourceType) -> Listing[T]:
        return Listing(self._client, kind, "", {}, self._decoder, patience=LIST_SECONDS)

    def _incident(self, what: str) -> None:
        self._on_incident(self._kind.qualified, what)

    def _now(self) -> int:
        return int(self._client.now())
