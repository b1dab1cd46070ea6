"""A replica that does not record keeps the last ten minutes, should the API server forget them meanwhile.

Who takes over goes on where the database ends. Only where the API server has forgotten what happened since then, as after a long
time without a database, the kept rows are written, and the watch goes on where they end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from pyroclast.api.types import ResourceType
from pyroclast.kube.basics.backoff import Backoff
from pyroclast.kube.http.client import Client
from pyroclast_recorder.database.batches import Cursor
from pyroclast_recorder.database.database import Database, DatabaseUnavailable
from pyroclast_recorder.following.keeping import Keeper, StandbySink
from pyroclast_recorder.following.kinds import Followed
from pyroclast_recorder.following.stream import Stream
from pyroclast_recorder.following.tracing import JobTracer
from pyroclast_recorder.following.writer import RowTaker, Writer

__all__ = ["Standby", "spare_of"]


class Standby:
    """Follows what another replica records, and keeps it.

    Args:
        client: the API server.
        database: says where the other replica is.
        sinks: the kinds that are followed, for those who take their rows.
        on_incident: counts what should be rare.
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
        """Keep, until `end` is called."""
        task = self._task = asyncio.create_task(self._keep())
        try:
            await asyncio.wait([task])
        finally:
            task.cancel()
        if not task.cancelled():
            task.result()

    def end(self) -> Mapping[ResourceType, Keeper]:
        """What was kept until now."""
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
        """How far the rows of the replica that records reach, as soon as the database answers."""
        backoff = Backoff(1.0, 30.0)
        while True:
            try:
                return await self._database.cursors()
            except DatabaseUnavailable:
                await asyncio.sleep(backoff.next())


def spare_of(keeper: Keeper, writer: Writer) -> Callable[[Cursor], Awaitable[Cursor | None]]:
    """Has what was kept written, where nothing is missing between the database and that."""

    async def spare(cursor: Cursor) -> Cursor | None:
        if not keeper.reaches(cursor):
            return None
        await keeper.hand_over(writer)
        return keeper.cursor

    return spare
