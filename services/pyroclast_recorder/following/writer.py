"""The writer of rows: one transaction each second, or earlier with many rows. While the database is behind, sinks wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

import structlog
from sqlalchemy import Table

from pyroclast.kube.basics.deadline import loop_time
from pyroclast.resources.backoff import Backoff
from pyroclast_recorder.database.batches import Batch, Cursor
from pyroclast_recorder.database.connections import DatabaseUnavailable, RowRefused
from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.tables import Row
from pyroclast_recorder.facts.native_groups import GroupEnd

log = structlog.get_logger()

MANY: Final = 500
"""The number of rows with which a transaction begins before the second is over."""

MOST: Final = 2 * MANY
PERIOD_SECONDS: Final = 1.0
PAUSES: Final = (0.5, 30.0)


class RowTaker(Protocol):
    """The receiver of rows and of the cursors up to which the rows are complete."""

    async def add(self, table: Table, version: int, row: Row) -> None:
        """Add a row of an object with the given version."""

    def move(self, cursor: Cursor) -> None:
        """Set the position up to which the rows include all events."""

    async def flushed(self) -> None:
        """Wait until all added rows can be read."""


class Writer:
    """Collects rows and writes them to the database.

    `on_write`: called with the number of written rows, and the seconds since the oldest of these rows was added. `before_write`:
    awaited with each batch before the batch is written; None when there is nothing to do. `on_ends`: called with the native
    PodGroups that ended. `on_incident`: called with the table of a row that was left out, and `left_out`.
    """

    def __init__(
        self,
        database: Database,
        now: Callable[[], float],
        on_write: Callable[[int, float], None],
        before_write: Callable[[Batch], Awaitable[None]] | None = None,
        *,
        on_ends: Callable[[Sequence[GroupEnd]], None] = lambda _: None,
        on_incident: Callable[[str, str], None] = lambda _, __: None,
    ) -> None:
        self._on_ends, self._on_incident = on_ends, on_incident
        self._database, self._now, self._on_write, self._before_write = database, now, on_write, before_write
        self._batch = Batch(database.cluster)
        self._oldest = 0.0
        self._flush = asyncio.Event()
        self._written = asyncio.Condition()
        self._generation = 0
        self._is_writing = False
        self._begun: float | None = None
        self._clock = asyncio.get_running_loop().time  # metrics are read in another thread, which has no loop
        self.complaint: str | None = None

    @property
    def unwritten_seconds(self) -> float:
        """For how long the oldest row has waited for the database; 0 without rows."""
        now = self._clock()
        oldest = self._begun if self._begun is not None else self._oldest if len(self._batch) else now
        return max(0.0, now - oldest)

    async def add(self, table: Table, version: int, row: Row) -> None:
        """Add a row. Waits while too many rows are not written."""
        async with self._written:
            await self._written.wait_for(lambda: len(self._batch) < MOST)
        if not len(self._batch):
            self._oldest = loop_time()
        self._batch.add(table, version, row)
        if len(self._batch) >= MANY:
            self._flush.set()

    def move(self, cursor: Cursor) -> None:
        """Set the position up to which the rows include all events. The position is written with the rows."""
        if not len(self._batch):
            self._oldest = loop_time()
        self._batch.move(cursor)

    async def flushed(self) -> None:
        """Wait until all added rows are in the database."""
        wanted = self._generation + (2 if self._is_writing else 1)
        self._flush.set()
        async with self._written:
            await self._written.wait_for(lambda: self._generation >= wanted)

    async def run(self) -> None:
        """Write rows until cancelled, then try once to write the remaining rows."""
        try:
            while True:
                try:
                    async with asyncio.timeout(PERIOD_SECONDS):
                        await self._flush.wait()
                except TimeoutError:
                    pass
                self._flush.clear()
                self._is_writing = True
                await self._write()
                self._is_writing = False
        except asyncio.CancelledError:
            if len(self._batch):
                try:
                    await self._write_once(self._batch)
                except DatabaseUnavailable as error:  # the next leader resumes at the last cursor
                    log.warning("recorder.last_rows_not_written", error=str(error))
            raise

    async def _write(self) -> None:
        batch, self._batch, oldest = self._batch, Batch(self._database.cluster), self._oldest
        self._begun = oldest if len(batch) else None
        try:
            await self._until_written(batch)
        except asyncio.CancelledError:
            batch.take_up(self._batch)
            self._batch = batch
            raise
        finally:
            self._begun = None
        if rows := sum(map(len, batch.rows.values())):
            self._on_write(rows, loop_time() - oldest)
        async with self._written:
            self._generation += 1
            self._written.notify_all()

    async def _until_written(self, batch: Batch) -> None:
        """Write a batch as soon as the database is available."""
        backoff = Backoff(*PAUSES)
        while len(batch):
            try:
                await self._write_once(batch)
                break
            except DatabaseUnavailable as error:
                if self.complaint is None:
                    log.warning("recorder.database_unavailable", error=str(error))
                self.complaint = f"the database takes no rows: {error}"
            await asyncio.sleep(backoff.next())
        if self.complaint is not None:
            log.info("recorder.database_resumed")
            self.complaint = None

    async def _write_once(self, batch: Batch) -> None:
        """Write a batch. If writing it fails for a row, write the rows one by one and leave out rows that fail alone."""
        now = int(self._now())
        if self._before_write is not None:
            try:
                await self._before_write(batch)
            except DatabaseUnavailable:
                raise
            except Exception:  # a trace is not worth the rows
                log.exception("recorder.traces_not_sent")
        try:
            ends: Sequence[GroupEnd] = await self._database.write(batch, now)
        except DatabaseUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - of one row, which is found below
            log.warning("recorder.batch_refused", error=str(error) or repr(error))
            ends = [end for part in batch.parts() for end in await self._alone(part, now)]
        self._on_ends(ends)

    async def _alone(self, part: Batch, now: int) -> Sequence[GroupEnd]:
        try:
            return await self._database.write(part, now)
        except DatabaseUnavailable:
            raise
        except RowRefused as error:
            log.error("recorder.row_left_out", rows=part.described(), error=str(error))  # noqa: TRY400 - of one row
        except Exception:
            log.exception("recorder.row_left_out", rows=part.described())
        for table in part.rows:
            self._on_incident(table.name, "left_out")
        return ()
