"""The connections to the database: for the recorder's own work, and others for the requests of readers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import aiosqlite
from sqlalchemy import Select, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as NoConnection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

T = TypeVar("T")

DRIVERS: Final = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg", "postgres": "postgresql+asyncpg"}
CONNECT_SECONDS: Final = 10.0
COMMAND_SECONDS: Final = 60.0
LOCKED_SECONDS: Final = 30.0
"""The limits in seconds for a connection and a statement in PostgreSQL, and for a lock of a SQLite file."""

ANSWER_SECONDS: Final = 20.0
"""The longest time in seconds for what one request reads."""

ANSWERS_AT_ONCE: Final = 4
"""The connections for requests. The recorder has other connections, so that no request delays its rows."""

WAIT_SECONDS: Final = 5.0
"""How long a request waits for one of these connections, in seconds."""

UNAVAILABLE: Final = (DBAPIError, OSError, asyncio.TimeoutError, NoConnection)


class WrongUrl(Exception):
    """The URL names no database that the recorder can use."""


class DatabaseUnavailable(Exception):
    """The database did not execute a statement; a later try may succeed."""


class TooSlow(Exception):
    """A request would read for longer than `ANSWER_SECONDS`."""


class RowRefused(Exception):
    """A row has a value that its column cannot store. No row of its transaction was written."""


class Answers:
    """Reads for requests. `url`: see `Database`."""

    def __init__(self, url: str) -> None:
        limits = {"pool_size": ANSWERS_AT_ONCE, "max_overflow": 0, "pool_timeout": WAIT_SECONDS}
        self.engine = engine_of(url, ANSWER_SECONDS, **limits)

    async def answer(self, read: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        """Return what `read` reads for a request, by a connection that the recorder does not need for its own work.

        When the time is over or the request is cancelled, the running statement is interrupted, so that its connection is free
        again. A statement of SQLite runs in a thread, which a cancelled task would leave running. Raises TooSlow: reading takes
        longer than `ANSWER_SECONDS`.
        """
        drivers: list[Any] = []
        reading = asyncio.create_task(self._read(read, drivers))
        try:
            await asyncio.wait([reading], timeout=ANSWER_SECONDS)
            if reading.done():
                return reading.result()
            raise TooSlow
        finally:
            if not reading.done():
                for driver in drivers:
                    if isinstance(driver, aiosqlite.Connection):
                        await driver.interrupt()
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)

    async def _read(self, read: Callable[[AsyncConnection], Awaitable[T]], drivers: list[Any]) -> T:
        try:
            async with self.engine.connect() as connection:
                drivers.append((await connection.get_raw_connection()).driver_connection)
                return await read(connection)
        except UNAVAILABLE as error:
            raise DatabaseUnavailable(cause_of(error)) from error


async def read_rows(connection: AsyncConnection, chosen: Select[Any]) -> list[dict[str, Any]]:
    """Return the rows of a query."""
    return [dict(row) for row in (await connection.execute(chosen)).mappings()]


def check_url(url: str) -> URL:
    """Parse `url` and set the database driver. Raises WrongUrl: `url` names no database that the recorder can use."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise WrongUrl("it is no URL; sqlite:///PATH or postgresql://USER:PASSWORD@HOST/NAME would be one") from None
    driver = DRIVERS.get(parsed.get_backend_name())
    if driver is None:
        raise WrongUrl(f"{parsed.get_backend_name()} is no database that the recorder knows; there are sqlite and postgresql")
    if not parsed.database:
        raise WrongUrl(
            "it names no file: sqlite:///PATH" if "sqlite" in driver else "it names no database: postgresql://HOST/NAME"
        )
    return parsed.set(drivername=driver)


def engine_of(text: str, seconds: float | None = None, **pool: Any) -> AsyncEngine:  # noqa: ANN401 - the options of SQLAlchemy
    """Return the connections to a database. `seconds`: the limit for a statement in PostgreSQL, by default `COMMAND_SECONDS`."""
    url = check_url(text)
    if url.get_backend_name() == "postgresql":
        limits = {"timeout": CONNECT_SECONDS, "command_timeout": seconds or COMMAND_SECONDS}
        return create_async_engine(url, pool_pre_ping=True, connect_args=limits, **pool)
    Path(url.database or "").parent.mkdir(parents=True, exist_ok=True)
    engine = create_async_engine(url, connect_args={"timeout": LOCKED_SECONDS}, **pool)
    event.listen(engine.sync_engine, "connect", _prepare_sqlite)
    event.listen(engine.sync_engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    return engine


def _prepare_sqlite(connection: Any, _: object) -> None:  # noqa: ANN401 - of the driver
    """Allow reads during a write, and let the recorder begin transactions explicitly."""
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.execute("PRAGMA analysis_limit=1000")
    cursor.close()


def is_about_a_value(error: BaseException) -> bool:
    """Whether the database refused a value. SQLAlchemy's errors wrap the errors of asyncpg and of sqlite3."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, DataError | IntegrityError) or type(cause).__name__ == DataError.__name__:
            return True
        if "binding parameter" in str(cause):  # sqlite3 has no class of its own for a value of the wrong type
            return True
        cause = getattr(cause, "orig", None) or cause.__cause__
    return False


def cause_of(error: BaseException) -> str:
    """Return the first line of the database's error message, without the statement and its values."""
    cause = getattr(error, "orig", None) or error
    return (str(cause) or type(cause).__name__).splitlines()[0]
