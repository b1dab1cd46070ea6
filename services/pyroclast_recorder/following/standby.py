"""The standby replica, which keeps the rows of the last ten minutes in memory while another replica records.

When the standby becomes the recording replica, its watches resume at the cursors in the database. If the API server has dropped
the events since a cursor, as after a long outage of the database, the rows in memory are written. The watch then resumes at the
end of these rows.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Generic, TypeVar

from sqlalchemy import Table

from pyroclast.api.records.meta import Record
from pyroclast.api.types import ResourceType
from pyroclast.kube.basics.retry import jittered_backoff
from pyroclast.kube.http.client import Client
from pyroclast_recorder.database.batches import Batch, Cursor
from pyroclast_recorder.database.connections import DatabaseUnavailable
from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.tables import Row
from pyroclast_recorder.following.kinds import Followed
from pyroclast_recorder.following.stream import Sink, Stream
from pyroclast_recorder.following.tracing import JobTracer
from pyroclast_recorder.following.writer import RowTaker, Writer

T = TypeVar("T", bound=Record)


KEPT_SECONDS: Final = 600
LOT_SECONDS: Final = 120
"""The seconds that one lot of rows covers. Old rows are dropped one lot at a time."""

MOST_ROWS: Final = 50_000
"""The most rows of one kind in memory. Rows with the same key are merged into one."""

CLOCKS_SECONDS: Final = 5
"""The seconds by which the clocks of two replicas may differ."""


class Keeper:
    """Keeps the recent rows of one kind in memory, in place of a `Writer`.

    `cursor`: the position at which the stream begins; None when the stream begins with a list.
    """

    def __init__(self, cluster: str, now: Callable[[], float], cursor: Cursor | None) -> None:
        self._cluster, self._now = cluster, now
        self._lots: deque[tuple[int, Batch]] = deque()
        self.cursor = cursor
        self.since: int | None = cursor.at if cursor else None

    async def add(self, table: Table, version: int, row: Row) -> None:
        """Add a row, and drop rows that are too old."""
        now = int(self._now())
        if not self._lots or now - self._lots[-1][0] >= LOT_SECONDS:
            self._lots.append((now, Batch(self._cluster)))
        self._lots[-1][1].add(table, version, row)
        while self._lots[0][0] <= now - KEPT_SECONDS - LOT_SECONDS or self._rows() > MOST_ROWS:
            self._lots.popleft()
            self.since = (self._lots[0][0] if self._lots else now) + CLOCKS_SECONDS
            if not self._lots:
                break

    def move(self, cursor: Cursor) -> None:
        """Set the position up to which the rows include all events."""
        self.cursor = cursor

    async def flushed(self) -> None:
        """Do nothing: each row is in memory at once."""

    def begin(self, since: int | None) -> None:
        """Set the time since which the rows are complete, for example the time of a list request.

        None: drop all rows, because they are useless.
        """
        if since is None:
            self._lots.clear()
        self.since = None if since is None else since + CLOCKS_SECONDS

    def reaches(self, cursor: Cursor) -> bool:
        """Whether the rows include all events between `cursor` and the cursor of this keeper."""
        if self.cursor is None or self.since is None:
            return False
        return self.cursor.epoch == cursor.epoch and self.since <= cursor.at

    async def hand_over(self, to: RowTaker) -> None:
        """Move all rows to a writer."""
        while self._lots:
            _, batch = self._lots.popleft()
            for table, rows in batch.rows.items():
                for row in rows.values():
                    await to.add(table, row["version"], row)

    def _rows(self) -> int:
        return sum(len(batch) for _, batch in self._lots)


class StandbySink(Generic[T]):
    """A `Sink` that passes objects to another sink, whose rows a keeper stores.

    After a list, only the rows of the listed objects are stored; deletions are not derived from the list.
    """

    def __init__(self, sink: Sink[T], keeper: Keeper) -> None:
        self._sink, self._keeper = sink, keeper

    async def take(self, record: T, version: int, now: int, *, is_deleted: bool) -> None:
        """Handle an added, updated or deleted object."""
        await self._sink.take(record, version, now, is_deleted=is_deleted)

    async def take_list(self, uids: set[str], since: int | None, began: int, now: int, version: int | None = None) -> None:  # noqa: ARG002 - a Sink
        """Handle a complete list: the rows are complete since the time `began` of the list request."""
        self._keeper.begin(began)

    async def tell_gap(self, cursor: Cursor, now: int, why: str) -> None:  # noqa: ARG002 - a Sink
        """Handle a gap: drop the rows from before the gap, which are useless after it."""
        self._keeper.begin(None)

    async def move(self, cursor: Cursor) -> None:
        """Set the position up to which the rows include all events."""
        self._keeper.move(cursor)


class Standby:
    """Watches the kinds that another replica records, and keeps their recent rows in memory.

    `sinks`: returns the watched kinds for the given writers of rows.
    """

    def __init__(
        self,
        client: Client,
        database: Database,
        sinks: Callable[[Callable[[ResourceType], RowTaker], JobTracer | None], Mapping[ResourceType, Followed]],
        on_incident: Callable[[str, str], None],
    ) -> None:
        self._client, self._database, self._sinks, self._on_incident = client, database, sinks, on_incident
        self._task: asyncio.Task[None] | None = None
        self.keepers: dict[ResourceType, Keeper] = {}

    async def run(self) -> None:
        """Keep recent rows, until `end` is called."""
        task = self._task = asyncio.create_task(self._keep())
        try:
            await asyncio.wait([task])
        finally:
            task.cancel()
        if not task.cancelled():
            task.result()

    def end(self) -> Mapping[ResourceType, Keeper]:
        """Stop, and return the keepers with the rows, by kind."""
        if self._task is not None:
            self._task.cancel()
        kept, self.keepers = self.keepers, {}
        return kept

    async def _keep(self) -> None:
        cursors = await self._cursors()

        def keeper(kind: ResourceType) -> Keeper:
            cursor = cursors.get(kind.qualified)
            return self.keepers.setdefault(kind, Keeper(self._database.cluster, self._client.now, cursor))

        sinks = self._sinks(keeper, None)
        async with asyncio.TaskGroup() as group:
            for kind, (record, sink, served) in sinks.items():
                kept, cursor = StandbySink(sink, keeper(kind)), cursors.get(kind.qualified)
                stream = Stream(self._client, kind, record, kept, cursor, on_incident=self._on_incident, served=served)
                group.create_task(stream.run())

    async def _cursors(self) -> Mapping[str, Cursor]:
        """Return the cursors of the recording replica, by kind, as soon as the database is available."""
        backoff = jittered_backoff(1.0, 30.0)
        while True:
            try:
                return await self._database.cursors()
            except DatabaseUnavailable:
                await asyncio.sleep(backoff.next())


def spare_of(keeper: Keeper, writer: Writer) -> Callable[[Cursor], Awaitable[Cursor | None]]:
    """Return a function that writes the rows of `keeper` if they include all events since a cursor.

    The function returns the cursor of the keeper; None when the rows are not complete.
    """

    async def spare(cursor: Cursor) -> Cursor | None:
        if not keeper.reaches(cursor):
            return None
        await keeper.hand_over(writer)
        return keeper.cursor

    return spare
