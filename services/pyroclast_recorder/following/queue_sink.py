"""Takes what is seen of queues, and writes each minute what they have and what is asked of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from pyroclast.api.records.groups import Queue
from pyroclast_recorder.database.batches import Cursor
from pyroclast_recorder.database.database import Database, DatabaseUnavailable
from pyroclast_recorder.database.tables import queue_minutes
from pyroclast_recorder.facts.queues import MINUTE, asked_of_queues, minute_facts
from pyroclast_recorder.following.writer import RowTaker

__all__ = ["QueueSink"]

log = structlog.get_logger()

BEFORE_THE_END: Final = 5
"""Seconds before the end of a minute at which it is looked at for the last time."""


class QueueSink:
    """A `Sink` of queues, all of which it knows: their stream begins with a list.

    Args:
        database: knows what Jobs ask for.
        writer: takes the rows.
        now: seconds by the clock of the API server.
        on_gone: told the name of a queue that was deleted.
    """

    def __init__(
        self, database: Database, writer: RowTaker, now: Callable[[], float], *, on_gone: Callable[[str], None] = lambda _: None
    ) -> None:
        self._on_gone = on_gone
        self._database, self._writer, self._now = database, writer, now
        self._queues: dict[str, tuple[int, Queue]] = {}
        self._is_listed = False

    async def run(self) -> None:
        """Write, until cancelled."""
        while True:
            await asyncio.sleep((2 * MINUTE - BEFORE_THE_END - self._now() % MINUTE) % MINUTE or MINUTE)
            try:
                await self.write()
            except DatabaseUnavailable as error:
                log.warning("recorder.queues_not_written", error=str(error))

    async def write(self) -> None:
        """Add the rows of this minute.

        Raises:
            DatabaseUnavailable: what Jobs ask for cannot be read.
        """
        if not self._is_listed:
            return
        asked, now = asked_of_queues(await self._database.open_jobs()), int(self._now())
        for version, queue in list(self._queues.values()):
            for row in minute_facts(queue, asked, now):
                await self._writer.add(queue_minutes, version, row)

    async def take(self, record: Queue, version: int, now: int, *, is_deleted: bool) -> None:  # noqa: ARG002 - a Sink
        """A queue was seen."""
        if is_deleted:
            self._queues.pop(record.metadata.uid, None)
            self._on_gone(record.metadata.name)
        else:
            self._queues[record.metadata.uid] = version, record

    async def take_list(self, uids: set[str], since: int | None, began: int, now: int) -> None:  # noqa: ARG002 - a Sink
        """The list is complete: queues that are not in it have gone."""
        for uid in self._queues.keys() - uids:
            self._on_gone(self._queues.pop(uid)[1].metadata.name)
        self._is_listed = True

    async def tell_gap(self, cursor: Cursor, now: int, why: str) -> None:
        """Nothing is lost: what queues are is listed anew."""

    async def move(self, cursor: Cursor) -> None:
        """Where it ends needs no row: the next who records lists all queues."""
