"""The data directory: every committed object in one SQLite file with a write-ahead log.

One transaction for each iteration of the event loop contains all its writes, so that an acknowledged write survives a killed
process. A thread merges the log into the database file, because only that merge waits for the disk.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

_SCHEMA_VERSION: Final = 1
_CHECKPOINT_SECONDS: Final = 5.0
# bytes; without a pause in the writes a log grows without bound, and one of this size is merged in some ms
_LONG_LOG: Final = 32 << 20
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS objects (
  id INTEGER PRIMARY KEY, collection TEXT NOT NULL, key TEXT NOT NULL, revision INTEGER NOT NULL, data BLOB NOT NULL,
  UNIQUE (collection, key)
);
CREATE TABLE IF NOT EXISTS revision (id INTEGER PRIMARY KEY CHECK (id = 0), value INTEGER NOT NULL);
"""
_STORE: Final = """
INSERT INTO objects (collection, key, revision, data) VALUES (?, ?, ?, ?)
ON CONFLICT (collection, key) DO UPDATE SET revision = excluded.revision, data = excluded.data
"""


class DamagedData(Exception):
    """The data directory cannot be used. The message names the file, the fault and the remedy."""


class JournalFailed(Exception):
    """The journal can no longer store writes. The message says why."""


class SqliteJournal:
    """The journal in the SQLite file `path`. The constructor checks the integrity of the file.

    Raises DamagedData: the file is not such a journal, or is corrupt.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._connection = self._open()
        except sqlite3.Error as error:
            raise DamagedData(f"{path}: {error}; restore it from a copy, or remove it to start empty") from error

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute("PRAGMA wal_autocheckpoint=0")
            self._check(connection)
            connection.executescript(_SCHEMA)
            connection.execute(f"PRAGMA user_version={_SCHEMA_VERSION}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _check(self, connection: sqlite3.Connection) -> None:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version not in {0, _SCHEMA_VERSION}:
            raise DamagedData(f"{self._path}: written by a newer version (format {version}, this one reads {_SCHEMA_VERSION})")
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)

    def revision(self) -> int:
        """Return the last revision in the journal, 0 for an empty journal."""
        row = self._connection.execute("SELECT value FROM revision").fetchone()
        return int(row[0]) if row else 0

    def objects(self) -> Iterator[tuple[str, str, int, bytes]]:
        """Yield all stored objects: collection, key, revision, data."""
        yield from self._connection.execute("SELECT collection, key, revision, data FROM objects ORDER BY collection, key")

    def write(self, batch: Iterable[tuple[str, str, int, bytes | None]]) -> None:
        """Write the whole batch in one transaction. An entry with data None removes the object."""
        newest = 0
        last: dict[tuple[str, str], tuple[int, bytes | None]] = {}  # of several writes of one object, only the last is written
        for collection, key, revision, data in batch:
            newest = max(newest, revision)
            last[collection, key] = revision, data
        stored = [(*name, revision, data) for name, (revision, data) in last.items() if data is not None]
        removed = [name for name, (_, data) in last.items() if data is None]
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.executemany(_STORE, stored)
            connection.executemany("DELETE FROM objects WHERE collection = ? AND key = ?", removed)
            connection.execute("INSERT OR REPLACE INTO revision VALUES (0, ?)", (newest,))
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    async def keep_log_short(self) -> None:
        """Merge the write-ahead log into the database file periodically in a thread, until cancelled."""
        while True:
            await asyncio.sleep(_CHECKPOINT_SECONDS)
            await asyncio.to_thread(self._checkpoint)

    def _checkpoint(self) -> None:
        connection = sqlite3.connect(self._path, isolation_level=None)
        try:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
            if self._log_size() > _LONG_LOG:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # makes writers wait for the writes since the first step
        finally:
            connection.close()

    def _log_size(self) -> int:
        log = self._path.with_name(self._path.name + "-wal")
        return log.stat().st_size if log.exists() else 0

    def close(self) -> None:
        """Merge the write-ahead log into the database file, and close the file."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._connection.close()
