"""Databases to test with: SQLite, and a real PostgreSQL in a folder of its own."""

from __future__ import annotations

import asyncio
import itertools
import shutil
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Table

from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client
from pyroclast_recorder.database.batches import Batch
from pyroclast_recorder.database.database import Database
from pyroclast_recorder.facts.native_groups import GroupEnd
from pyroclast_recorder.following import writer
from tests.postgres import postgres_server
from tests.unit.running import running_server

from .laboratory import Laboratory, define

CLUSTER = "3f0c"

ON_SQLITE = pytest.mark.parametrize("new_database", ["sqlite"], indirect=True)
"""For what does not depend on the database."""

NewDatabase = Callable[[], AbstractAsyncContextManager[Database]]


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a PostgreSQL that ends with the tests."""
    with postgres_server() as url:
        yield url


@pytest.fixture(autouse=True)
def prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are written ten times a second."""
    monkeypatch.setattr(writer, "PERIOD_SECONDS", 0.1)


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty database of SQLite that has all tables: a copy of it is made sooner."""
    file = tmp_path_factory.mktemp("migrated") / "history.db"

    async def migrate() -> None:
        database = Database(f"sqlite:///{file}", CLUSTER)
        await database.migrate()
        await database.close()

    loop = asyncio.new_event_loop()
    loop.run_until_complete(migrate())
    loop.close()
    return file


@pytest.fixture(params=["sqlite", "postgresql"])
def new_database(request: pytest.FixtureRequest, tmp_path: Path, migrated: Path) -> NewDatabase:
    """Makes empty databases of one kind, each of a cluster of its own."""
    numbers = itertools.count()

    def url_of(number: int) -> str:
        if request.param == "postgresql":
            return str(request.getfixturevalue("postgres"))
        file = tmp_path / f"history-{number}.db"
        shutil.copyfile(migrated, file)
        return f"sqlite:///{file}"

    @asynccontextmanager
    async def new() -> AsyncIterator[Database]:
        number = next(numbers)
        database = Database(url_of(number), f"{CLUSTER}-{request.node.name}-{number}")
        await database.migrate()
        try:
            yield database
        finally:
            await database.close()

    return new


@pytest.fixture
async def database(new_database: NewDatabase) -> AsyncIterator[Database]:
    """An empty database."""
    async with new_database() as database:
        yield database


@pytest.fixture
async def laboratory(database: Database) -> AsyncIterator[Laboratory]:
    async with running_server() as server, Client(load_config(str(server.kubeconfig))) as client:
        await define(client)
        await server.settle()
        found = Laboratory(server, client, database)
        try:
            yield found
        finally:
            await found.stop()


async def write(database: Database, rows: Iterable[tuple[Table, int, Mapping[str, Any]]], now: int) -> list[GroupEnd]:
    """Write rows, each with its table and its version, in one transaction."""
    batch = Batch(database.cluster)
    for table, version, row in rows:
        batch.add(table, version, row)
    return await database.write(batch, now)
