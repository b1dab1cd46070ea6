"""The standby replica, which keeps the rows of the last ten minutes in memory while another replica records.

When the standby becomes the recording replica, its watches resume at the cursors in the database. If the API server has dropped
the events since a cursor, as after a long outage of the database, the rows in memory are written. The watch then resumes at the
end of these rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from pyroclast.api.types import ResourceType
from pyroclast.kube.basics.retry import jittered_backoff
from pyroclast.kube.http.client import Client
from pyroclast_recorder.database.batches import Cursor
from pyroclast_recorder.database.database import Database, DatabaseUnavailable
from pyroclast_recorder.following.keeping import Keeper, StandbySink
from pyroclast_recorder.following.kinds import Followed
from pyroclast_recorder.following.stream import Stream
from pyroclast_recorder.following.tracing import JobTracer
from pyroclast_recorder.following.writer import RowTaker, Writer


class Standby:
    """Watches the kinds that another replica records, and keeps their recent rows in memory.

    Args:
        client: the client of the API server.
        database: the source of the cursors of the recording replica.
        sinks: returns the watched kinds for the given writers of rows.
        on_incident: counts rare incidents.
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
