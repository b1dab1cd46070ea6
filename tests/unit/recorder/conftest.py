"""Databases to test with: SQLite, and a real PostgreSQL in a folder of its own."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from pyroclast_recorder.database.database import Database
from tests.postgres import postgres_server

CLUSTER = "3f0c"

ON_SQLITE = pytest.mark.parametrize("new_database", ["sqlite"], indirect=True)
"""For what does not depend on the database."""

NewDatabase = Callable[[], AbstractAsyncContextManager[Database]]


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a PostgreSQL that ends with the tests."""
    with postgres_server() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def new_database(request: pytest.FixtureRequest, tmp_path: Path) -> NewDatabase:
    """Makes empty databases of one kind, each of a cluster of its own."""
    numbers = itertools.count()

    @asynccontextmanager
    async def new() -> AsyncIterator[Database]:
        number = next(numbers)
        url = (
            request.getfixturevalue("postgres") if request.param == "postgresql" else f"sqlite:///{tmp_path}/history-{number}.db"
        )
        database = Database(url, f"{CLUSTER}-{request.node.name}-{number}")
        await database.migrate()
        try:
            yield database
        finally:
            await database.close()

    return new
