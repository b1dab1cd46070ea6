"""A database that is full, locked, slow or away: the writer says so, goes on when it can, and loses nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from sqlalchemy import event, text

from pyroclast_recorder.database import connections as module
from pyroclast_recorder.database.batches import Cursor
from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.tables import jobs
from pyroclast_recorder.following.writer import Writer
from tests.postgres import postgres_process
from tests.unit.ending import ended

from .conftest import CLUSTER, NewDatabase

NOW = 9000
ROWS = 300


@asynccontextmanager
async def writing(database: Database) -> AsyncIterator[Writer]:
    writer = Writer(database, lambda: float(NOW), lambda rows, seconds: None)
    running = asyncio.create_task(writer.run())
    try:
        yield writer
    finally:
        await ended(running)


async def add(writer: Writer, first: int) -> None:
    """Rows of several pages, and the cursor that they reach to."""
    for number in range(first, first + ROWS):
        await writer.add(jobs, 1, {"uid": f"j{number:05}", "namespace": "ns", "name": "a", "message": "x" * 500})
    writer.move(Cursor("jobs", str(first + ROWS), NOW, 0))


async def complaint(writer: Writer) -> str:
    async with asyncio.timeout(60):
        while writer.complaint is None:
            await asyncio.sleep(0.02)
    return writer.complaint


async def check(database: Database, writer: Writer, rows: int) -> None:
    """All rows are there with their cursor, and the writer is content."""
    async with asyncio.timeout(60):
        await writer.flushed()
    assert writer.complaint is None
    assert len(await database.still_there(jobs)) == rows
    assert (await database.cursors())["jobs"].resource_version == str(rows)


@pytest.mark.parametrize("new_database", ["sqlite"], indirect=True)
async def test_a_full_database_takes_the_rows_when_there_is_room_again(database: Database) -> None:
    async with writing(database) as writer:
        pages = ["PRAGMA max_page_count = 4294967294"]
        event.listen(database._engine.sync_engine, "begin", lambda connection: connection.exec_driver_sql(pages[0]))
        await add(writer, 0)
        await check(database, writer, ROWS)
        pages[0] = "PRAGMA max_page_count = 1"  # no page more than there are
        await add(writer, ROWS)
        assert await complaint(writer) == "the database takes no rows: database or disk is full"
        assert (await database.cursors())["jobs"].resource_version == str(ROWS), "what was committed stays"
        pages[0] = "PRAGMA max_page_count = 4294967294"
        await check(database, writer, 2 * ROWS)


@pytest.mark.parametrize("new_database", ["sqlite", "postgresql"], indirect=True)
async def test_writes_to_a_locked_database_are_retried_until_it_is_unlocked(
    new_database: NewDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "COMMAND_SECONDS", 0.5)
    monkeypatch.setattr(module, "LOCKED_SECONDS", 0.5)
    async with new_database() as database, new_database() as other, writing(database) as writer:
        await add(writer, 0)
        await check(database, writer, ROWS)
        is_sqlite = database._engine.dialect.name == "sqlite"
        lock = "UPDATE jobs SET name = name" if is_sqlite else "LOCK TABLE jobs IN EXCLUSIVE MODE"
        async with (database if is_sqlite else other)._engine.begin() as connection:  # each SQLite database is a file of its own
            await connection.execute(text(lock))
            await add(writer, ROWS)
            assert (await complaint(writer)).startswith("the database takes no rows: ")
        await check(database, writer, 2 * ROWS)


async def test_a_postgresql_that_is_stopped_and_started_again_gets_all_rows() -> None:
    with postgres_process() as server:
        database = Database(server.get_uri(), CLUSTER)
        await database.migrate()
        async with writing(database) as writer:
            await add(writer, 0)
            await check(database, writer, ROWS)
            await asyncio.to_thread(server.stop)
            await add(writer, ROWS)
            said = await complaint(writer)
            assert said.startswith("the database takes no rows: ")
            assert "\n" not in said
            await asyncio.to_thread(server.start)
            await check(database, writer, 2 * ROWS)
        await database.close()
